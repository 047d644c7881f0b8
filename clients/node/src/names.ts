/** The namespace of an engine that has no others. */
export const defaultNamespace = "default";

const maxNamespace = 32; // characters

/** Names spells the subjects and streams of one namespace of an engine. */
export class Names {
  /** What the subjects begin with: that of the namespace acme is the engine's, "-acme" behind it. */
  readonly prefix: string;

  constructor(
    prefix: string = "work",
    /** The JetStream domain that has the engine's streams; none: that of the server, or what the engine says. */
    readonly domain: string = "",
    namespace?: string,
  ) {
    if (/[.*>\s]/.test(domain)) throw new RangeError(`the JetStream domain "${domain}" is no word: it is without . * and >`);
    if (!/^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$/.test(prefix)) {
      throw new RangeError(`the prefix "${prefix}" is no subject: use tokens of letters, digits, - and _ with dots between them`);
    }
    const root = prefix.split("-", 1)[0]!;
    if (namespace === undefined) this.prefix = prefix;
    else if (namespace.length > maxNamespace || !/^[a-z0-9]+(-[a-z0-9]+)*$/.test(namespace)) {
      throw new RangeError(`invalid namespace "${namespace}": use at most ${maxNamespace} characters of a-z and 0-9, with single - between them`);
    } else this.prefix = namespace === defaultNamespace ? root : `${root}-${namespace}`;
  }

  /** The namespace that the names are of. */
  get namespace(): string {
    const at = this.prefix.indexOf("-");
    return at < 0 ? defaultNamespace : this.prefix.slice(at + 1);
  }

  api(endpoint: string): string {
    return `${this.prefix}.api.${endpoint}`;
  }
  /** A request to the JetStream that has the streams, in the domain that the engine says unless one was given. */
  jetstream(request: string, said: string = ""): string {
    const domain = this.domain || said;
    return domain === "" ? `$JS.API.${request}` : `$JS.${domain}.API.${request}`;
  }
  /** The domain under which accounts other than the engine's import its streams, those of all namespaces. */
  get importDomain(): string {
    return this.prefix.split("-", 1)[0]!.replaceAll(".", "_");
  }
  log(type: string, id: string): string {
    return `${this.prefix}.log.${type}.${id}`;
  }
  output(type: string, id: string): string {
    return `${this.prefix}.output.${type}.${id}`;
  }
  control(worker: string): string {
    return `${this.prefix}.control.${worker}`;
  }

  /** Where all workers hear that an engine has become the owner. */
  controlAll(): string {
    return this.control("_all");
  }
  probe(worker: string): string {
    return `${this.prefix}.probe.${worker}`;
  }
  /** Matches where the engine sends items to a session of a worker. */
  runsOf(session: string): string {
    return `${this.prefix}.run.*.${session}`;
  }
  submit(type: string): string {
    return `${this.prefix}.submit.${type}`;
  }
  bucket(name: string): string {
    return `${this.prefix.replaceAll(".", "_")}_${name}`;
  }
}
