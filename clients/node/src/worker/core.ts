import type { Msg } from "@nats-io/nats-core";

import type { Client } from "../client.js";
import type { StopCode } from "../errors.js";
import type { Link } from "../link.js";
import type { Names } from "../names.js";
import { Waiters } from "../text.js";
import type * as wire from "../wire.gen.js";
import { Clock } from "./clock.js";
import { execute } from "./execute.js";
import { FailureLog } from "./faillog.js";
import { benchedMs, holdMs, now, prefetchBelowMs, slowRunMs } from "./limits.js";
import { Inbox } from "./inbox.js";
import type { Line } from "./line.js";
import type { Said } from "./outcome.js";
import type { Consumer } from "./pulls.js";
import { Reports, type Pending } from "./reports.js";
import { parseRun, Registration, type Run, type RunState } from "./run.js";
import { Session } from "./session.js";
import type { Logger, WorkerStats } from "./types.js";

/** Where a worker is in its life; it only ever goes on. */
export type Phase = "new" | "active" | "draining" | "stopping" | "stopped";

/** What a worker is made of. */
export interface Made {
  client: Client;
  id: string;
  concurrency: number;
  prefetch: number;
  capabilities: string[];
  version: string;
  host: string;
  probe: boolean;
  log: Logger;
  types: Map<string, Registration>;
  inboxPrefix: string | undefined;
}

/** A worker's state, and what happens to it. All of it runs in the event loop, one thing at a time. */
export class Core {
  phase: Phase = "new";
  registered = false;
  session = "";
  consumers = new Map<string, Consumer>();
  /** Everything dispatched to this worker and not gone, by token. */
  readonly runs = new Map<string, Run>();
  readonly lines = new Map<Run, Line>();
  /** Another worker has registered under the id. */
  replaced = false;
  /** Why the engine takes this worker for unhealthy; empty: it does not. */
  shunned = "";
  readonly failures: FailureLog;
  readonly reports: Reports;
  readonly sessions: Session;
  readonly inbox: Inbox;
  readonly stats: WorkerStats = { registered: false, held: 0, running: 0, settling: 0, completed: 0, failed: 0, released: 0, spawned: 0, snoozed: 0, refused: 0, leasesLost: 0 };
  readonly id: string;
  readonly concurrency: number;
  readonly log: Logger;
  readonly types: Map<string, Registration>;
  readonly link: Link;
  readonly names: Names;
  readonly client: Client;
  readonly inboxPrefix: string | undefined;
  #held: Run[] = []; // waiting for a slot, oldest first
  #counts: Record<RunState, number> = { held: 0, claiming: 0, running: 0, settling: 0, returning: 0, gone: 0 };
  #meanRunMs = slowRunMs;
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
    this.inboxPrefix = made.inboxPrefix;
    this.clock = new Clock(this);
    this.reports = new Reports(this);
    this.sessions = new Session(this);
    this.inbox = new Inbox(this);
  }

  /** What the engine is told of this worker. */
  registration(): wire.Register {
    const { id, capabilities, concurrency, host, version, probe } = this.made;
    const all: wire.Register = { worker: id, types: [...this.types.keys()], capabilities, slots: concurrency, host, version, probe };
    if (this.session !== "") all.session = this.session;
    return { ...all, ...this.inbox.offer() };
  }

  // Counts.

  get busy(): number {
    return this.#counts.claiming + this.#counts.running;
  }

  count(state: RunState): number {
    return this.#counts[state];
  }

  /** Moves a run and keeps the counts. */
  setState(run: Run, state: RunState): void {
    this.#count(run, -1);
    run.state = state;
    if (state === "gone") {
      this.runs.delete(run.token);
      this.lines.delete(run);
    } else this.#count(run, 1);
    this.changed();
  }

  #count(run: Run, by: number): void {
    if (run.state === "gone") return;
    this.#counts[run.state] += by;
    if (run.state === "held") run.registration.held += by;
    else if (run.state === "claiming" || run.state === "running") run.registration.inSlots += by;
  }

  /** Resolves with true once ok, with false after so long. It is asked whenever a run moves or the phase changes. */
  until(ok: () => boolean, ms: number): Promise<boolean> {
    return this.#waiters.until(ok, ms);
  }

  /** Has those who wait look again. */
  changed(): void {
    this.#waiters.look();
  }

  // Pulls, and what comes.

  /** Whether the worker takes work now. */
  get pulling(): boolean {
    return this.phase === "active" && this.registered && this.link.connected && this.shunned === "";
  }

  /** How many more items may be claimed. Outcomes on their way hold no slot, but no more of them than slots may pile up. */
  get #room(): number {
    const n = this.concurrency;
    return Math.min(n - this.busy, 2 * n - this.busy - this.#counts.settling);
  }

  /** How many items may be held. */
  get #allowance(): number {
    return this.#meanRunMs >= prefetchBelowMs ? 0 : this.made.prefetch;
  }

  /** How many messages the worker wants from a consumer: what is free is shared, each getting at least one. */
  wanted(c: Consumer): number {
    let n = Math.max(this.#room, 0) + this.#allowance - this.#held.length;
    const { limit, inSlots, held } = c.registration;
    if (limit > 0) n = Math.min(n, limit - inSlots - held);
    return n <= 0 ? 0 : Math.ceil(n / this.consumers.size);
  }

  refillAll(): void {
    if (!this.pulling) return;
    for (const c of this.consumers.values()) c.refill();
  }

  /** Why an item that comes now is handed back; empty: it is not. */
  get unwanted(): string {
    if (this.phase !== "active") return "shutdown";
    if (this.shunned !== "") return "unhealthy";
    return this.replaced ? "replaced" : "";
  }

  /** Takes in a dispatched message. */
  arrive(msg: Msg): void {
    const run = parseRun(msg, this.types, now());
    if (typeof run === "string") {
      this.log.error(`a dispatched message can't be run and is dropped: ${run}`);
      return this.#ack(msg.reply);
    }
    if (this.runs.has(run.token)) return this.log.warn(`a dispatched message of item ${run.id} came twice; the second is ignored`);
    this.runs.set(run.token, run);
    this.setState(run, "held");
    const unwanted = this.unwanted;
    if (unwanted !== "") return this.handBack(run, unwanted);
    this.#held.push(run);
    this.#admit();
    if (run.state !== "held") return;
    if (this.#held.length > this.#allowance) {
      this.#held.pop(); // it is the last
      return this.handBack(run, "no_slot");
    }
    this.dueBy(run.holdUntil);
  }

  /** Claims held items while there is room. */
  #admit(): void {
    const rest: Run[] = [];
    for (const run of this.#held) {
      const { limit, inSlots } = run.registration;
      if (this.#room <= 0 || (limit > 0 && inSlots >= limit)) {
        rest.push(run);
        continue;
      }
      this.claim(run);
    }
    this.#held = rest;
  }

  /** Asks for an item that there is a slot for. */
  claim(run: Run): void {
    this.setState(run, "claiming");
    this.reports.add(run, { event: "claim", start: true, attempt: run.attempt });
  }

  /** Returns an item that was not begun. */
  handBack(run: Run, reason: string): void {
    this.setState(run, "returning");
    this.reports.add(run, { event: "release", reason });
  }

  handBackHeld(reason: string): void {
    const held = this.#held;
    this.#held = [];
    for (const run of held) this.handBack(run, reason);
  }

  /** Uses what a run has left. */
  moreWork(): void {
    this.#admit();
    this.refillAll();
    this.noteDrained();
  }

  #ack(reply: string | undefined): void {
    if (reply && !this.link.closed) this.link.nc.publish(reply, "+ACK");
  }

  #finish(run: Run): void {
    this.#ack(run.dispatch.reply); // ahead of whoever waits for the run's end, such as stop
    this.setState(run, "gone");
  }

  // Answers.

  claimAnswered(run: Run, reply: wire.Reported, code: string, asked: number): void {
    if (code === "") return this.#granted(run, reply, asked);
    this.stats.refused++;
    this.log.debug(`the claim of item ${run.id} was refused: ${code}`);
    this.#finish(run);
    if (code === "draining") this.drainByEngine();
    else if (code === "unhealthy" && this.shunned === "") {
      this.sessions.confirm = true; // the refusal may be older than what the engine said last
      this.takenFor("unhealthy", reply.error?.message);
    } else if (code === "circuit_open" && reply.error?.retry_after_ms) this.#benched(reply.error.retry_after_ms);
  }

  #granted(run: Run, reply: wire.Reported, asked: number): void {
    if (run.letGo) return this.#letGo(run);
    if (this.phase !== "active" || this.replaced) {
      this.setState(run, "settling");
      return this.reports.add(run, { event: "release", reason: this.replaced ? "replaced" : "shutdown" });
    }
    this.begin(run);
    void execute(this, run, reply, asked);
  }

  /** Counts a run as running. */
  begin(run: Run): void {
    this.setState(run, "running");
    run.renewAt = run.receivedAt + run.leaseMs / 3;
    this.dueBy(run.renewAt);
  }

  /** A handler has come to its end. */
  ended(run: Run, outcome: Said, tookMs: number): void {
    run.abort = undefined;
    this.#meanRunMs += (tookMs - this.#meanRunMs) / 8;
    run.registration.took(tookMs);
    if (run.gaveUp) this.setState(run, "gone"); // no ack: the lease decides
    else if (run.letGo) this.#letGo(run);
    else {
      const said = this.lines.get(run)?.lastWords(outcome) ?? [outcome];
      this.setState(run, "settling");
      this.reports.add(run, ...said);
    }
    this.moreWork();
  }

  /**
   * Ends a run whose outcome the engine does not want. It holds the slot of one that
   * was cancelled, or assigned, until it hears that the handler is done, so it is told.
   */
  #letGo(run: Run): void {
    if (run.stop !== "cancelled" && !run.refused && !run.assigned) return this.#finish(run);
    this.setState(run, "settling");
    this.reports.add(run, { event: "release", reason: "cancelled" });
  }

  /** Acts on the definitive answer to anything but a claim. */
  outcomeAnswered(p: Pending, reply: wire.Reported, code: string): void {
    const { run, said } = p;
    if (code === "") this.#told(said.event);
    else if (this.#failInstead(p, reply, code)) return;
    else if (code === "too_large" || code.startsWith("bad_")) this.log.error(`the engine refused the ${said.event} of item ${run.id}: ${reply.error?.message}`);
    else if (run.state !== "returning" && !run.letGo) this.log.warn(`the ${said.event} of item ${run.id} came too late and was refused: ${code}`);
    // The engine assigns nothing more before it has heard what runs.
    if (run.assigned && run.state === "returning" && this.phase === "active") this.sessions.beatBy(now() + holdMs);
    this.#finish(run);
  }

  #told(event: string): void {
    const { stats } = this;
    if (event === "complete") stats.completed++;
    else if (event === "fail") stats.failed++;
    else if (event === "release") stats.released++;
    else if (event === "spawn") stats.spawned++;
    else if (event === "snooze") stats.snoozed++;
  }

  /** Fails an item whose outcome was refused for what it says, not for what has become of the item. */
  #failInstead(p: Pending, reply: wire.Reported, code: string): boolean {
    const { run, said } = p;
    if (["stale_token", "wrong_state", "wrong_attempt", "wrong_worker"].includes(code)) return false;
    const complete = said.event === "complete";
    if (complete ? code === "not_found" : said.event !== "spawn" && said.event !== "snooze") return false;
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

  /** Registers at once with an engine that has become the owner, even if the tries before have failed. */
  called(): void {
    this.registered = false;
    this.sessions.called();
  }

  needRegister(): void {
    this.registered = false;
    this.sessions.kick();
  }

  /** Acts on the refusal of a claim since the id is another worker's. */
  claimedByNobody(run: Run): void {
    this.needRegister(); // the answer to that says what to do with the runs
    this.handBack(run, "replaced");
  }

  /**
   * Gives way to the worker that has registered under this one's id: what runs is
   * stopped at once and handed back as its handlers end, as is what is held. It goes on
   * asking for its registration, and has it back when the other one has left.
   */
  giveWay(cause: string): boolean {
    if (this.replaced) return false;
    this.replaced = true;
    this.registered = false;
    const running = [...this.runs.values()].filter((r) => r.state === "running");
    for (const run of running) this.endRun(run, "lease_lost", false);
    this.log.error(`another worker has registered as ${this.id}: ${running.length} runs are stopped; give each worker an id of its own (${cause})`);
    this.handBackHeld("replaced");
    return true;
  }

  drainByEngine(): void {
    if (this.phase !== "active") return;
    this.log.info("the engine has asked this worker to drain");
    this.phase = "draining";
    this.handBackHeld("draining");
    this.sessions.kick(); // closes the lanes
    this.noteDrained();
  }

  /** Whether a drain that the engine has asked for is complete. */
  get drained(): boolean {
    return this.phase === "draining" && this.runs.size === 0 && [...this.consumers.values()].every((c) => c.closed);
  }

  noteDrained(): void {
    if (this.drained) this.changed();
  }

  takenFor(status: wire.Control["status"], reason: string | undefined): void {
    if (status === undefined) return;
    const shunned = status === "unhealthy" ? reason || "the engine says so" : "";
    const was = this.shunned;
    this.shunned = shunned;
    if ((was === "") === (shunned === "") || this.phase !== "active") return;
    if (shunned !== "") {
      this.log.warn(`the engine takes this worker for unhealthy: it takes no new work (${shunned})`);
      this.handBackHeld("unhealthy");
      this.sessions.kick(); // closes the lanes
    } else this.needRegister(); // opens them
  }

  /** Pulls nothing for a while: the engine has opened this worker's circuit. */
  #benched(ms: number): void {
    this.log.warn("the engine lets this worker run nothing for now: it has failed what others complete");
    const until = now() + Math.min(ms, benchedMs);
    for (const c of this.consumers.values()) c.pauseUntil = until;
    this.handBackHeld("circuit_open");
  }

  // The connection and the clock.

  /** Takes note of the connection's state: pulls and requests of the one before are void. */
  connectionChanged(): void {
    if (!this.link.connected) this.registered = false;
    if (this.link.closed) {
      for (const run of this.runs.values()) this.endRun(run, "lease_lost", true); // without a connection no lease can be kept
    } else if (this.link.connected) {
      const at = now();
      for (const run of this.runs.values()) run.renewAt = at;
      this.reports.retryNow();
      this.sessions.kick();
      this.dueBy(at);
    }
    this.changed();
  }

  /** Has the clock look at things no later than that. */
  dueBy(at: number): void {
    this.clock.dueBy(at);
  }

  /** Hands back what has waited too long: handlers are no longer short. */
  tickHeld(at: number): void {
    const late = this.#held.filter((r) => at >= r.holdUntil);
    this.#held = this.#held.filter((r) => at < r.holdUntil);
    for (const run of this.#held) this.dueBy(run.holdUntil);
    if (late.length > 0) this.#meanRunMs = slowRunMs;
    for (const run of late) this.handBack(run, "no_slot");
  }
}
