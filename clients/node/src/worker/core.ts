import { randomBytes } from "node:crypto";

import type { Client } from "../client.js";
import { StreamwrightError, type StopCode } from "../errors.js";
import type { Link } from "../link.js";
import type { Names } from "../names.js";
import { Waiters } from "../text.js";
import type * as wire from "../wire.gen.js";
import { Clock } from "./clock.js";
import { execute } from "./execute.js";
import { FailureLog } from "./faillog.js";
import { now, restMs } from "./limits.js";
import type { Line } from "./line.js";
import type { Said } from "./outcome.js";
import { Receiver } from "./receiver.js";
import { Reports, type Pending } from "./reports.js";
import type { Registration, Run, RunState } from "./run.js";
import { Session } from "./session.js";
import type { Logger, WorkerStats } from "./types.js";

/** Where a worker is in its life; it only ever goes on. */
export type Phase = "new" | "active" | "draining" | "stopping" | "stopped";

/** What a worker is made of. */
export interface Made {
  client: Client;
  id: string;
  concurrency: number;
  capabilities: string[];
  version: string;
  host: string;
  probe: boolean;
  log: Logger;
  types: Map<string, Registration>;
}

/** A worker's state, and what happens to it. All of it runs in the event loop, one thing at a time. */
export class Core {
  phase: Phase = "new";
  registered = false;
  /** Names this life of the worker. */
  readonly session = randomBytes(16).toString("hex");
  /** Everything sent to this worker and not gone, by token. */
  readonly runs = new Map<string, Run>();
  readonly lines = new Map<Run, Line>();
  /** Another worker has registered under the id. */
  replaced = false;
  /** Why the engine takes this worker for unhealthy; empty: it does not. */
  shunned = "";
  readonly failures: FailureLog;
  readonly reports: Reports;
  readonly sessions: Session;
  readonly receiver: Receiver;
  readonly stats: WorkerStats = { registered: false, running: 0, settling: 0, completed: 0, failed: 0, released: 0, spawned: 0, snoozed: 0, waited: 0, leasesLost: 0 };
  readonly id: string;
  readonly concurrency: number;
  readonly log: Logger;
  readonly types: Map<string, Registration>;
  readonly link: Link;
  readonly names: Names;
  readonly client: Client;
  #counts: Record<RunState, number> = { starting: 0, running: 0, settling: 0, returning: 0, gone: 0 };
  #lostAt = 0; // when the connection was lost
  #owner = new AbortController(); // ends the requests that the owner of the log may never answer
  readonly clock: Clock;
  readonly #waiters = new Waiters();

  constructor(private readonly made: Made) {
    this.client = made.client;
    this.link = made.client.link;
    this.names = made.client.names;
    this.id = made.id;
    this.concurrency = made.concurrency;
    this.log = made.log;
    this.failures = new FailureLog(made.log);
    this.types = made.types;
    this.clock = new Clock(this);
    this.reports = new Reports(this);
    this.sessions = new Session(this);
    this.receiver = new Receiver(this);
  }

  /** What the engine is told of this worker. */
  registration(): wire.Register {
    const { id, capabilities, concurrency, host, version, probe } = this.made;
    return { worker: id, session: this.session, types: [...this.types.keys()], capabilities, slots: concurrency, host, version, probe, ...this.receiver.limits() };
  }

  /** Asks the engine. The request ends early when the connection is lost, or another engine becomes the owner. */
  request(endpoint: string, body: string, ms: number): Promise<string> {
    return this.link.request(this.names.api(endpoint), body, ms, this.#owner.signal);
  }

  // Counts.

  get busy(): number {
    return this.#counts.starting + this.#counts.running;
  }

  count(state: RunState): number {
    return this.#counts[state];
  }

  /** Moves a run and keeps the counts. */
  setState(run: Run, state: RunState): void {
    this.#counts[run.state]--;
    this.#counts[state]++;
    run.state = state;
    if (state === "gone") {
      this.runs.delete(run.token);
      this.lines.delete(run);
    }
    this.changed();
  }

  /** Resolves with true once ok, with false after so long. It is asked whenever a run moves or the phase changes. */
  until(ok: () => boolean, ms: number): Promise<boolean> {
    return this.#waiters.until(ok, ms);
  }

  /** Has those who wait look again. */
  changed(): void {
    this.#waiters.look();
  }

  // What comes.

  /** Why an item that comes now is handed back; empty: it is not. */
  get unwanted(): string {
    if (this.phase !== "active") return "shutdown";
    if (this.shunned !== "") return "unhealthy";
    return this.replaced ? "replaced" : "";
  }

  /** Reports the start of an item that may have waited too long in this process, before it runs. */
  startFirst(run: Run): void {
    this.setState(run, "starting");
    this.reports.add(run, { event: "start" });
  }

  /** Returns an item that was not begun. */
  handBack(run: Run, reason: string): void {
    this.setState(run, "returning");
    this.reports.add(run, { event: "release", reason });
  }

  // Answers.

  startAnswered(run: Run, code: string, asked: number): void {
    if (run.state !== "starting") return; // it was handed back meanwhile
    if (code !== "") {
      this.log.debug(`the start of item ${run.id} was refused: ${code}`);
      return this.setState(run, "gone");
    }
    if (run.letGo) return this.#letGo(run);
    const unwanted = this.unwanted;
    if (unwanted !== "") return this.handBack(run, unwanted);
    this.begin(run);
    void execute(this, run, asked);
  }

  /** Counts a run as running. */
  begin(run: Run): void {
    this.setState(run, "running");
    if (!this.link.connected) this.loseBy(run, now());
  }

  /** A handler has come to its end. */
  ended(run: Run, outcome: Said, tookMs: number): void {
    run.abort = undefined;
    run.registration.took(tookMs);
    if (run.gaveUp) this.setState(run, "gone"); // the lease decides
    else if (run.letGo) this.#letGo(run);
    else {
      const said = this.lines.get(run)?.lastWords(outcome) ?? [outcome];
      this.setState(run, "settling");
      this.reports.add(run, ...said);
    }
  }

  /**
   * Ends a run whose outcome the engine does not want. It holds the slot until it hears
   * that the handler is done, so it is told.
   */
  #letGo(run: Run): void {
    this.setState(run, "settling");
    this.reports.add(run, { event: "release", reason: "cancelled" });
  }

  /** Acts on the definitive answer to anything but a start. */
  outcomeAnswered(p: Pending, reply: wire.Reported, code: string): void {
    const { run, said } = p;
    if (code === "") this.#told(said.event);
    else if (this.#failInstead(p, reply, code)) return;
    else if (code === "too_large" || code.startsWith("bad_")) this.log.error(`the engine refused the ${said.event} of item ${run.id}: ${reply.error?.message}`);
    else if (run.state !== "returning" && !run.letGo) this.log.warn(`the ${said.event} of item ${run.id} came too late and was refused: ${code}`);
    // The engine sends nothing more before it has heard what runs.
    if (run.state === "returning" && this.phase === "active") this.sessions.beatBy(now() + restMs);
    this.setState(run, "gone");
  }

  #told(event: string): void {
    const { stats } = this;
    if (event === "complete") stats.completed++;
    else if (event === "fail") stats.failed++;
    else if (event === "release") stats.released++;
    else if (event === "spawn") stats.spawned++;
    else if (event === "snooze") stats.snoozed++;
    else if (event === "wait") stats.waited++;
  }

  /** Fails an item whose outcome was refused for what it says, not for what has become of the item. */
  #failInstead(p: Pending, reply: wire.Reported, code: string): boolean {
    const { run, said } = p;
    if (["stale_token", "wrong_state", "wrong_attempt", "wrong_worker"].includes(code)) return false;
    const complete = said.event === "complete";
    if (complete ? code === "not_found" : !["spawn", "snooze", "wait"].includes(said.event)) return false;
    const error = `${code}: ${reply.error?.message ?? "the engine refused it"}`;
    this.log.warn(`the engine refused the ${said.event} of item ${run.id}; the item fails: ${error}`);
    this.reports.add(run, { event: "fail", error, code: complete ? "bad_result" : "bad_spawn", retryable: false });
    return true;
  }

  /** Ends a run's signal, now or as soon as it has one. letGo: the engine does not want to hear of it again. */
  endRun(run: Run, code: StopCode, letGo: boolean): void {
    run.letGo ||= letGo;
    if (run.stop !== undefined) return;
    if (code === "lease_lost") this.stats.leasesLost++;
    run.end(code);
  }

  /** Ends runs that the engine no longer counts. */
  endRuns(refs: readonly wire.RunRef[], code: StopCode): void {
    for (const ref of refs) {
      const run = this.runs.get(ref.token);
      if (run?.id === ref.id) this.endRun(run, code, true);
    }
  }

  // What the engine says of the worker.

  /** Hears a control message. */
  obey(c: wire.Control): void {
    this.endRuns(c.cancel ?? [], "cancelled");
    if (c.drain) this.drainByEngine();
    this.takenFor(c.status, c.reason);
    if (c.register) this.needRegister();
  }

  /**
   * Registers at once with an engine that has become the owner, even if the tries before have
   * failed, and asks it what the one before has not answered.
   */
  called(): void {
    this.registered = false;
    this.#owner.abort(new StreamwrightError("unavailable", "another engine has become the owner"));
    this.#owner = new AbortController();
    this.sessions.called();
  }

  needRegister(): void {
    this.registered = false;
    this.sessions.kick();
  }

  /**
   * Gives way to the worker that has registered under this one's id: what runs is
   * stopped at once and handed back as its handlers end. It goes on
   * asking for its registration, and has it back when the other one has left.
   */
  giveWay(cause: string): void {
    if (this.replaced) return;
    this.replaced = true;
    this.registered = false;
    const runs = [...this.runs.values()];
    const running = runs.filter((r) => r.state === "running");
    for (const run of running) this.endRun(run, "lease_lost", false);
    for (const run of runs) if (run.state === "starting") this.handBack(run, "replaced");
    this.log.error(`another worker has registered as ${this.id}: ${running.length} runs are stopped; give each worker an id of its own (${cause})`);
  }

  drainByEngine(): void {
    if (this.phase !== "active") return;
    this.log.info("the engine has asked this worker to drain");
    this.phase = "draining";
    this.changed();
  }

  /** Whether a drain that the engine has asked for is complete. */
  get drained(): boolean {
    return this.phase === "draining" && this.runs.size === 0;
  }

  takenFor(status: wire.Control["status"], reason: string | undefined): void {
    if (status === undefined) return;
    const shunned = status === "unhealthy" ? reason || "the engine says so" : "";
    const was = this.shunned;
    this.shunned = shunned;
    if ((was === "") === (shunned === "") || this.phase !== "active") return;
    if (shunned !== "") this.log.warn(`the engine takes this worker for unhealthy: it takes no new work (${shunned})`);
    else this.log.info("the engine takes this worker for healthy again");
  }

  // The connection and the clock.

  /** Takes note of the connection's state: requests of the one before are void. */
  connectionChanged(): void {
    if (!this.link.connected) {
      this.registered = false;
      this.#lostAt = now();
      this.dueBy(this.#lostAt);
    }
    if (this.link.closed) {
      for (const run of this.runs.values()) this.endRun(run, "lease_lost", true); // without a connection no lease can be kept
    } else if (this.link.connected) {
      this.reports.retryNow();
      this.sessions.kick();
    }
    this.changed();
  }

  /** Has the clock look at things no later than that. */
  dueBy(at: number): void {
    this.clock.dueBy(at);
  }

  /** Takes a run for lost once there was no connection for a whole lease: heartbeats keep it. */
  loseBy(run: Run, at: number): void {
    if (this.link.connected || run.stop !== undefined) return;
    const lost = this.#lostAt + run.leaseMs;
    if (at < lost) return this.dueBy(lost);
    this.log.warn(`no connection for a whole lease: the run of item ${run.id} is stopped`);
    this.endRun(run, "lease_lost", false);
  }
}
