import { createInbox, type Msg, type Subscription } from "@nats-io/nats-core";

import type { Core } from "./core.js";
import { backoffMaxMs, backoffMinMs, now, pullExpiresMs, pullGraceMs, pullLanes } from "./limits.js";
import type { Registration } from "./run.js";

/** An inbox that one pull request at a time is answered to, so that what is still to come is known. */
interface Lane {
  inbox: string;
  sub: Subscription;
  /** Messages still to come. */
  left: number;
  /** When they surely no longer come. */
  expires: number;
}

/** One consumer of the dispatch stream that this worker pulls from. */
export class Consumer {
  readonly lanes: Lane[] = [];
  /** No more pulls. */
  closed = false;
  /** Gone at the server: register again before pulling. */
  broken = false;
  /** No pulls before. */
  pauseUntil = 0;
  readonly #subject: string;

  constructor(
    private readonly core: Core,
    stream: string,
    readonly name: string,
    readonly registration: Registration,
    readonly epoch: number,
    domain: string | undefined,
  ) {
    this.#subject = core.names.jetstream(`CONSUMER.MSG.NEXT.${stream}.${name}`, domain);
    const nc = core.link.nc;
    for (let i = 0; i < pullLanes; i++) {
      const inbox = createInbox(core.inboxPrefix);
      const lane: Lane = { inbox, left: 0, expires: 0, sub: undefined as unknown as Subscription };
      lane.sub = nc.subscribe(inbox, { callback: (err, msg) => err ? core.log.warn(`the inbox of consumer ${name}: ${err.message}`) : this.#arrived(lane, msg) });
      this.lanes.push(lane);
    }
  }

  get outstanding(): number {
    return this.lanes.reduce((n, l) => n + l.left, 0);
  }

  /** Asks for more once half of what was asked for has come. */
  refill(): void {
    if (this.closed || this.broken) return;
    const want = this.core.wanted(this);
    const coming = this.outstanding;
    if (want <= 0 || 2 * coming > want) return;
    const at = now();
    if (at < this.pauseUntil) return this.core.dueBy(this.pauseUntil);
    const lane = this.lanes.find((l) => l.left === 0);
    if (!lane) return;
    lane.left = want - coming;
    lane.expires = at + pullExpiresMs + pullGraceMs;
    this.core.dueBy(lane.expires);
    // No idle heartbeat: a lost request shows by the clock.
    const request = { batch: lane.left, expires: pullExpiresMs * 1_000_000 };
    this.core.link.nc.publish(this.#subject, JSON.stringify(request), { reply: lane.inbox });
  }

  #arrived(lane: Lane, msg: Msg): void {
    const status = msg.headers?.code ?? 0;
    if (status !== 0 && msg.data.length === 0) return this.#ended(lane, status, msg.headers?.description ?? "");
    lane.left = Math.max(lane.left - 1, 0);
    this.core.arrive(msg);
    if (this.core.pulling) this.refill();
  }

  /** A pull request has come to its end. */
  #ended(lane: Lane, status: number, text: string): void {
    if (status === 100) return;
    lane.left = 0;
    if (status === 409 && /leadership change|server shutdown/i.test(text)) {
      this.pauseUntil = now() + backoffMinMs;
    } else if (status === 503 || status === 404 || (status === 409 && /consumer deleted/i.test(text))) {
      if (!this.broken) this.core.log.info(`consumer ${this.name} is gone (${status} ${text}): registering again`);
      this.broken = true;
      this.core.needRegister();
    } else if (status !== 408) {
      this.core.log.warn(`a pull request to consumer ${this.name} was refused (${status} ${text}); trying again`);
      this.pauseUntil = now() + backoffMaxMs;
      this.core.needRegister();
    }
    this.core.refillAll();
  }

  /** Notices pull requests that were lost. */
  tick(at: number): void {
    for (const l of this.lanes) {
      if (l.left === 0) continue;
      if (at < l.expires) this.core.dueBy(l.expires);
      else l.left = 0;
    }
  }

  /** Makes a consumer that was gone usable again. */
  mend(): void {
    if (!this.broken) return;
    this.broken = false;
    for (const l of this.lanes) l.left = 0;
  }

  /** Ends the lanes and waits for what the server has already sent. */
  async drain(): Promise<void> {
    this.closed = true;
    await Promise.all(this.lanes.map((l) => l.sub.drain().catch(() => {}))); // fails only without a connection
    for (const l of this.lanes) l.left = 0;
  }

  /** Ends the lanes of a connection that is gone. */
  drop(): void {
    this.closed = true;
    for (const l of this.lanes) {
      l.sub.unsubscribe();
      l.left = 0;
    }
  }
}
