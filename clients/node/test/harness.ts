import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

import { connect, type Client, type ConnectOptions } from "../src/index.js";

const here = fileURLToPath(new URL(".", import.meta.url)); // build/test
export const repository = resolve(here, "../../../..");
export const builtEngine = resolve(here, "../engine");
const enginePath = process.env["STREAMWRIGHT_ENGINE"] ?? builtEngine;

/** The user that engines without users of their own are asked as. A secured engine knows it. */
export const login = { user: process.env["NATS_USER"], pass: process.env["NATS_PASSWORD"] } as ConnectOptions;

/** The part of engine.toml that secures an engine: TLS, and users in an account of their own. */
export const secured = process.env["STREAMWRIGHT_TEST_TOML"] ?? "";

const config = `
[types.short]
lease = "1s"

[types.brief]
timeout = "400ms"

[types.retried]
max_attempts = 3
  [types.retried.backoff]
  initial = "10ms"
  jitter = 0.0
`;

/** A real `engine serve` with a folder and a port of its own. */
export class Engine {
  #process: ChildProcess | undefined;
  #listen = "127.0.0.1:0";
  url = "";
  readonly #dir = mkdtempSync(join(tmpdir(), "streamwright-node-"));
  readonly #clients: Client[] = [];
  #violations: string[] = []; // what the NATS server of a secured engine has refused
  #secured = "";

  private constructor(private readonly open: boolean) {}

  /** more is added to the configuration. An open engine is never secured. */
  static async start(more = "", { open = false } = {}): Promise<Engine> {
    const e = new Engine(open);
    e.configure(more);
    await e.start();
    return e;
  }

  /** Has the next start add more to the configuration, in place of what was added. It may have users of its own. */
  configure(more: string): void {
    this.#secured = this.open || more.includes("[[nats.users]]") ? "" : secured;
    writeFileSync(join(this.#dir, "engine.toml"), config + more + this.#secured);
  }

  async start(): Promise<void> {
    const args = ["serve", "--json", "--config", join(this.#dir, "engine.toml"), "--dir", join(this.#dir, "data"), "--nats-listen", this.#listen, "--http", "off", "--durability", "interval"];
    const child = spawn(enginePath, args, { stdio: ["ignore", "pipe", "pipe"] });
    this.#process = child;
    let errors = "";
    createInterface({ input: child.stderr }).on("line", (line) => {
      errors = `${errors}${line}\n`.slice(-4_000);
      if (this.#secured && /violation/i.test(line)) this.#violations.push(line);
    });
    const lines = createInterface({ input: child.stdout });
    const ready = once(lines, "line") as Promise<[string]>;
    const ended = once(child, "exit").then(([code]) => {
      throw new Error(`engine serve has ended with ${code}: ${errors}`);
    });
    ended.catch(() => {});
    const [line] = await Promise.race([ready, ended]);
    this.url = (JSON.parse(line) as { nats: string }).nats;
    this.#listen = this.url.replace(/^.*:\/\//, "");
  }

  /** Ends the process and waits for its end. */
  async stop(signal: NodeJS.Signals = "SIGTERM"): Promise<void> {
    const child = this.#process;
    this.#process = undefined;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const exit = once(child, "exit");
    child.kill(signal);
    await exit;
  }

  async client(options: ConnectOptions = {}): Promise<Client> {
    const c = await connect({ servers: this.url, ...(this.#secured ? login : {}), ...options });
    this.#clients.push(c);
    return c;
  }

  /** Ends everything. */
  async close(): Promise<void> {
    for (const c of this.#clients) await c.close();
    await this.stop();
    rmSync(this.#dir, { recursive: true, force: true });
    assert.deepEqual(this.#violations, [], "the NATS server refuses what is needed");
  }
}

/** A worker in a process of its own; see child.ts. */
export class ChildWorker {
  readonly #process: ChildProcess;
  readonly #lines: string[] = [];
  #wake: () => void = () => {};
  readonly exit: Promise<[number | null, NodeJS.Signals | null]>;

  constructor(url: string, id: string) {
    this.#process = spawn(process.execPath, [join(here, "child.js")], { env: { ...process.env, NATS_URL: url, WORKER_ID: id }, stdio: ["ignore", "pipe", "inherit"] });
    this.exit = once(this.#process, "exit") as Promise<[number | null, NodeJS.Signals | null]>;
    createInterface({ input: this.#process.stdout! }).on("line", (line) => {
      this.#lines.push(line);
      this.#wake();
    });
    this.#process.on("exit", () => this.#wake());
  }

  /** Waits for a line of its output. */
  async line(text: string): Promise<void> {
    while (!this.#lines.includes(text)) {
      if (this.#process.exitCode !== null) throw new Error(`the worker has ended without saying "${text}": ${this.#lines.join("; ")}`);
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  get lines(): readonly string[] {
    return this.#lines;
  }

  kill(signal: NodeJS.Signals): void {
    this.#process.kill(signal);
  }
}

/** A promise, and how it is resolved. */
export interface Deferred<T> {
  promise: Promise<T>;
  resolve: (value: T) => void;
}

export function deferred<T = void>(): Deferred<T> {
  let resolve!: (value: T) => void;
  const promise = new Promise<T>((r) => (resolve = r));
  return { promise, resolve };
}

/** Resolves when a signal is aborted, with its reason. */
export function aborted(signal: AbortSignal): Promise<unknown> {
  if (signal.aborted) return Promise.resolve(signal.reason);
  return new Promise((resolve) => signal.addEventListener("abort", () => resolve(signal.reason), { once: true }));
}
