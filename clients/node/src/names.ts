/** Names spells the subjects and streams of one engine. */
export class Names {
  constructor(readonly prefix: string = "work") {
    if (!/^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$/.test(prefix)) {
      throw new RangeError(`the prefix "${prefix}" is no subject: use tokens of letters, digits, - and _ with dots between them`);
    }
  }

  api(endpoint: string): string {
    return `${this.prefix}.api.${endpoint}`;
  }
  event(partition: string, type: string, kind: string): string {
    return `${this.prefix}.event.${partition}.${type}.${kind}`;
  }
  log(type: string, id: string): string {
    return `${this.prefix}.log.${type}.${id}`;
  }
  control(worker: string): string {
    return `${this.prefix}.control.${worker}`;
  }
  probe(worker: string): string {
    return `${this.prefix}.probe.${worker}`;
  }
  submit(type: string): string {
    return `${this.prefix}.submit.${type}`;
  }
  eventStream(partition: number): string {
    return this.#stream(`EVENTS_${partition}`);
  }
  bucket(name: string): string {
    return `${this.prefix.replaceAll(".", "_")}_${name}`;
  }
  #stream(name: string): string {
    return `${this.prefix.replace(/[.-]/g, "_").toUpperCase()}_${name}`;
  }
}
