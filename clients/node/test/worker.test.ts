import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { after, afterEach, before, describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { answerOf, RunStopped, StreamwrightError, Worker, WorkError, type Answer, type Client, type Item, type WorkerOptions } from "../src/index.js";
import { aborted, deferred, Engine, type Deferred } from "./harness.js";

const quiet = { debug() {}, info() {}, warn() {}, error() {} };
const code = (wanted: string) => (err: unknown) => (err instanceof StreamwrightError || err instanceof RunStopped) && err.code === wanted;

describe("worker", { timeout: 120_000 }, () => {
  let engine: Engine;
  let client: Client;
  const running: Worker[] = [];
  before(async () => {
    engine = await Engine.start();
    client = await engine.client();
  });
  afterEach(async () => {
    await Promise.all(running.splice(0).map((w) => w.stop()));
  });
  after(() => engine.close());

  async function work(options: WorkerOptions): Promise<Worker> {
    const w = new Worker(client, { logger: quiet, ...options });
    running.push(w);
    await w.start();
    return w;
  }

  const submit = async (type: string, params?: unknown, more: object = {}): Promise<string> => (await client.submit({ type, params, ...more })).id!;

  it("writes output that is followed", async () => {
    const all = Buffer.concat([Buffer.from("größer €\n".repeat(20_000)), Buffer.from([0xff, 0, 1])]);
    let tries = 0;
    await work({
      types: {
        answer: async (_, ctx) => {
          if (++tries === 1) {
            await ctx.output("of the first run");
            throw new Error("again");
          }
          void ctx.output(all.subarray(0, 1)); // not awaited, and in order all the same
          await ctx.output(all.subarray(1, 100_000));
          await ctx.output(all.subarray(100_000));
        },
      },
    });
    const id = await submit("answer", {}, { max_attempts: 2 });
    let got = Buffer.alloc(0);
    let resets = 0;
    let half = 0;
    for await (const chunk of client.output(id, { follow: true })) {
      if (chunk.reset) {
        resets++;
        got = Buffer.alloc(0);
      }
      assert.equal(chunk.offset, got.length);
      got = Buffer.concat([got, chunk.bytes]);
      if (half === 0 && resets === 2) half = chunk.seq;
    }
    assert.ok(got.equals(all), `${got.length} bytes of ${all.length}`);
    assert.ok(resets === 1 || resets === 2); // the second run may begin before the first chunk is read
    const rest: Buffer[] = [];
    for await (const chunk of client.output(id, { after: half })) rest.push(Buffer.from(chunk.bytes));
    assert.ok(Buffer.concat(rest).equals(half === 0 ? all : all.subarray(1)));
    assert.equal((await client.wait(id)).state, "completed");
  });

  it("runs and completes", async () => {
    const seen = deferred<Item>();
    const w = await work({
      types: {
        email: async (item: Item, ctx) => {
          seen.resolve(item);
          ctx.log("sending");
          ctx.log("slow server", "warn");
          ctx.progress(50, "half");
          await ctx.checkpoint({ connected: true }); // so that the progress is told before the end
          return { sent: item.params.to };
        },
      },
    });
    const id = await submit("email", { to: "ann" }, { labels: { a: "1" }, traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01" });
    const item = await client.wait(id);
    assert.equal(item.state, "completed");
    assert.deepEqual(item.result, { sent: "ann" });
    assert.equal(item.worker, w.id);
    const got = await seen.promise;
    assert.equal(got.attempt, 1);
    assert.equal(got.namespace, "default");
    assert.deepEqual(got.labels, { a: "1" });
    assert.match(got.trace!, /^00-4bf9/);
    assert.equal(got.text, '{"to":"ann"}');
    assert.ok(got.deadline!.getTime() > Date.now());
    const logs = await client.logs(id);
    assert.deepEqual(logs.map((l) => [l.level, l.message, l.attempt, l.worker]), [["info", "sending", 1, w.id], ["warn", "slow server", 1, w.id]]);
    assert.ok((await client.history(id)).some((e) => e.kind === "progressed"));
  });

  it("runs no more than its concurrency, and gets through many", async () => {
    let now = 0;
    let most = 0;
    const w = await work({
      concurrency: 5,
      types: {
        many: async () => {
          most = Math.max(most, ++now);
          await new Promise((r) => setImmediate(r));
          now--;
        },
      },
    });
    const out = await client.submit(Array.from({ length: 500 }, (_, n) => ({ type: "many", params: n })));
    for (const o of out) assert.equal((await client.wait(o.id!)).state, "completed");
    assert.ok(most >= 2 && most <= 5, `${most} at once`);
    assert.equal(w.stats().completed, 500);
  });

  it("keeps the lease over several of its lengths", async () => {
    await work({ types: { short: () => sleep(4_500, "done") } });
    const id = await submit("short");
    const item = await client.wait(id);
    assert.equal(item.state, "completed");
    assert.equal(item.attempt, 1);
    assert.equal(item.leases_lost, undefined);
  });

  it("is retried after a failure, by the handler's word and with its wait", async () => {
    await work({
      types: {
        retried: (item: Item) => {
          if (item.attempt === 1) throw new Error("first");
          if (item.attempt === 2) throw new WorkError("second", { code: "busy", retryAfterMs: 20 });
          return item.attempt;
        },
      },
    });
    const id = await submit("retried");
    const item = await client.wait(id);
    assert.equal(item.state, "completed");
    assert.equal(item.result, 3);
    const failed = (await client.history(id)).filter((e) => e.kind === "failed").map((e) => e.data as { code: string; error: string });
    assert.deepEqual(failed.map((f) => [f.code, f.error]), [["error", "first"], ["busy", "second"]]);
  });

  it("is dead at once after a failure that is not retryable", async () => {
    const warned: string[] = [];
    await work({
      logger: { ...quiet, warn: (text) => warned.push(text) },
      types: {
        fatal: () => {
          throw new WorkError("no such account", { code: "no_account", retryable: false });
        },
        cyclic: () => {
          const loop: { self?: unknown } = {};
          loop.self = loop;
          return loop;
        },
      },
    });
    const item = await client.wait(await submit("fatal"));
    assert.equal(item.state, "dead");
    assert.deepEqual(item.error, { message: "no such account", code: "no_account", retryable: false });
    assert.deepEqual(warned, [`a handler has failed: item ${item.id}, type fatal, code no_account: no such account`]);
    assert.equal((await client.wait(await submit("cyclic"))).error?.code, "bad_result");
  });

  it("aborts the handler of an item that is cancelled", async () => {
    const started = deferred();
    const reason = deferred<unknown>();
    const w = await work({
      types: {
        long: async (_item, ctx) => {
          started.resolve();
          reason.resolve(await aborted(ctx.signal));
          throw ctx.signal.reason;
        },
      },
    });
    const id = await submit("long");
    await started.promise;
    const out = await client.cancel(id);
    assert.equal(out.was_running, true);
    assert.ok(code("cancelled")(await reason.promise));
    assert.equal((await client.get(id)).state, "cancelled");
    await w.stop();
    assert.equal(w.stats().running + w.stats().settling, 0);
  });

  it("aborts the handler when the attempt's time is over", async () => {
    await work({
      types: {
        brief: async (item: Item, ctx) => {
          if (item.attempt > 1) return "in time";
          throw await aborted(ctx.signal);
        },
      },
    });
    const id = await submit("brief");
    assert.equal((await client.wait(id)).result, "in time");
    const failed = (await client.history(id)).filter((e) => e.kind === "failed");
    assert.deepEqual(failed.map((e) => (e.data as { code: string }).code), ["timeout"]);
  });

  it("does not record what a run reports under a stale token", async () => {
    // The engine takes the item away while the handler runs, for it is cancelled
    // and run anew; the control message does not reach this worker's run.
    const started = deferred<Item>();
    const go = deferred();
    const answers = deferred<PromiseSettledResult<unknown>[]>();
    await work({
      types: {
        stale: async (item: Item, ctx) => {
          if (item.attempt > 1) return "second";
          started.resolve(item);
          await go.promise;
          answers.resolve(await Promise.allSettled([ctx.token("paid"), ctx.checkpoint({ at: 1 })]));
          await aborted(ctx.signal);
          return "first";
        },
      },
      concurrency: 2,
    });
    const id = await submit("stale");
    await started.promise;
    await client.cancel(id);
    await client.request("replay", { id });
    go.resolve();
    const item = await client.wait(id);
    for (const a of await answers.promise) assert.ok(a.status === "rejected" && ["cancelled", "lease_lost"].includes((a.reason as RunStopped).code));
    assert.equal(item.state, "completed");
    assert.equal(item.result, "second");
  });

  it("aborts a run whose lease was lost, and does not record its result", async () => {
    // The lease runs out because the event loop is blocked for longer.
    const reason = deferred<unknown>();
    const other = await engine.client();
    await work({
      types: {
        short: async (item: Item, ctx) => {
          if (item.attempt > 1) return "second";
          Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2_500);
          reason.resolve(await aborted(ctx.signal));
          return "first";
        },
      },
      concurrency: 1, // an assigned item that waits unread would lose its lease, too
    });
    const item = await other.wait(await submit("short"));
    assert.ok(["cancelled", "lease_lost"].includes((await reason.promise as RunStopped).code));
    assert.equal(item.result, "second");
    assert.equal(item.attempt, 2);
    assert.equal(item.leases_lost, 1);
  });

  it("resumes from a checkpoint", async () => {
    await work({
      types: {
        retried: async (item: Item, ctx) => {
          const from = (item.checkpoint as { page: number } | undefined)?.page ?? 0;
          if (from === 0) {
            await ctx.checkpoint({ page: 1 });
            await ctx.checkpoint({ page: 2 });
            throw new Error("in the midst");
          }
          return from;
        },
      },
    });
    assert.equal((await client.wait(await submit("retried"))).result, 2);
  });

  it("snoozes, with no attempt used", async () => {
    let runs = 0;
    await work({ types: { sleepy: (item: Item, ctx) => (++runs === 1 ? ctx.snooze(20, "not yet") : item.attempt) } });
    const item = await client.wait(await submit("sleepy"));
    assert.equal(item.result, 1);
    assert.equal(runs, 2);
  });

  it("waits for a signal, which a run that fails leaves to the next", async () => {
    let runs = 0;
    await work({
      types: {
        pay: (item: Item, ctx) => {
          if (++runs === 1) return ctx.wait("paid", { forMs: 60_000 });
          if (runs === 2) throw new Error("in the midst");
          return { signals: item.waited?.signals.map((s) => [s.name, s.payload]), timedOut: item.waited?.timedOut, attempt: item.attempt };
        },
        late: (item: Item, ctx) => (item.waited ? item.waited.timedOut : ctx.wait(["a", "b"], { forMs: 1, all: true })),
        given: (_: Item, ctx) => ctx.wait("never", { until: new Date(Date.now() + 5), complete: { result: "by default" } }),
      },
    });
    const id = await submit("pay");
    await client.signal(id, "paid", { sum: 3 }, { msgId: "hook-1" });
    assert.equal((await client.signal(id, "paid", { sum: 3 }, { msgId: "hook-1" })).repeat, true);
    assert.deepEqual((await client.wait(id)).result, { signals: [["paid", { sum: 3 }]], timedOut: false, attempt: 2 });
    assert.equal((await client.wait(await submit("late"))).result, true);
    assert.equal((await client.wait(await submit("given"))).result, "by default");
    await assert.rejects(client.signal(id, "paid"), (err: StreamwrightError) => err.code === "ended");
  });

  it("makes tokens, of which each is answered once, with a result or an error", async () => {
    const made: Record<string, Deferred<string>> = {};
    const madeFor = (id: string): Deferred<string> => (made[id] ??= deferred<string>());
    await work({
      types: {
        order: async (item: Item, ctx) => {
          const paid = item.waited?.signals[0];
          if (paid?.error) throw new WorkError(paid.error.message!, { code: paid.error.code!, retryable: false });
          if (paid) return { paid: paid.payload, token: paid.token };
          await assert.rejects(ctx.token(""), code("bad_request"));
          madeFor(item.id).resolve(await ctx.token("paid"));
          return ctx.wait("paid", { forMs: 60_000 });
        },
      },
    });
    const id = await submit("order");
    const token = await madeFor(id).promise;
    assert.match(token, new RegExp(`^${id}-[A-Z2-7]{32}$`));
    for (const unknown of [`${id}-${"A".repeat(32)}`, "no token", ""]) await assert.rejects(client.presentToken(unknown, { result: 1 }), code("not_found"));
    for (let n = 0; n < 2; n++) assert.equal((await client.presentToken(token, { result: { sum: 3 } })).id, id);
    await assert.rejects(client.presentToken(token, { result: { sum: 4 } }), code("already_completed"));
    await assert.rejects(client.presentToken(token, { error: { code: "declined", message: "no money" } }), code("already_completed"));
    assert.deepEqual((await client.wait(id)).result, { paid: { sum: 3 }, token: true });
    const history = await client.history(id);
    assert.deepEqual(history.find((e) => e.kind === "token_given")?.data, { name: "paid", hash: createHash("sha256").update(token).digest("hex") });
    assert.ok(!JSON.stringify(history).includes(token));
    assert.equal((await client.presentToken(token, { result: { sum: 3 } })).id, id); // also after the end
    const declined = await submit("order");
    await client.presentToken(await madeFor(declined).promise, { error: { code: "declined", message: "no money" } });
    assert.deepEqual((await client.wait(declined)).error, { message: "no money", code: "declined", retryable: false });
    const cancelled = await submit("order");
    const late = await madeFor(cancelled).promise;
    await client.cancel(cancelled);
    await assert.rejects(client.presentToken(late), code("ended"));
  });

  it("asks people, by who may answer, a form and a link", async () => {
    const links = new Map<string, string>();
    await work({
      types: {
        expense: async (item: Item, ctx) => {
          const answer = answerOf<{ sum: number }>(item, "ok");
          if (answer) return answer;
          links.set(item.id, await ctx.token("ok", { for: "bob" }));
          return ctx.ask("ok", { title: "Pay?", choices: ["approve", "edit"], proposal: { sum: 80 }, form: { type: "object", properties: { sum: { type: "integer" } } }, who: { users: ["ada"], roles: ["operate"] }, remind: { everyMs: 60_000, type: "remind", most: 2 } }, { forMs: 60_000 });
        },
      },
    });
    const asked = async (id: string): Promise<void> => {
      for (;;) {
        for await (const a of client.approvals({ type: "expense" })) if (a.id === id) return;
        await sleep(20);
      }
    };
    const id = await submit("expense");
    await asked(id);
    const question = await client.approval(id);
    assert.equal(question.title, "Pay?");
    assert.deepEqual(question.proposal, { sum: 80 });
    await assert.rejects(client.answer(id, { choice: "edit", value: { sum: "x" }, by: "ada" }), code("bad_request"));
    for (const repeat of [undefined, true]) assert.equal((await client.answer(id, { number: 1, choice: "edit", value: { sum: 40 }, comment: "half", by: "ada" })).repeat, repeat);
    await assert.rejects(client.answer(id, { choice: "approve", by: "ada" }), code("already_completed"));
    const { by, ...said } = (await client.wait(id)).result as Answer;
    assert.deepEqual(said, { choice: "edit", value: { sum: 40 }, comment: "half" });
    assert.ok(by); // with users the login's name, whatever was said
    const other = await submit("expense");
    await asked(other);
    await client.presentToken(links.get(other)!, { result: { choice: "approve" } });
    assert.deepEqual((await client.wait(other)).result, { choice: "approve", by: "bob", value: { sum: 80 } });
  });

  it("spawns a thousand large children, and has batches", async () => {
    const ran = new Set<number>();
    const pad = "x".repeat(700);
    await work({
      concurrency: 50,
      types: {
        many: (item: Item, ctx) => {
          if (item.continuation) return item.continuation.children.length;
          return ctx.spawn(Array.from({ length: 1000 }, (_, n) => ({ type: "one", params: { n, pad } })), { continuation: "join" });
        },
        one: (item: Item) => void ran.add((item.params as { n: number }).n),
      },
    });
    assert.equal((await client.wait(await submit("many"))).result, 1000);
    assert.equal(ran.size, 1000);
    const { id } = await client.openBatch({ name: "nightly", callback: { type: "one", params: { n: 2000 } } });
    await client.submit([{ type: "one", params: { n: 1001 }, batch: id }, { type: "one", params: { n: 1002 }, batch: id }]);
    const sealed = await client.sealBatch(id);
    assert.equal(sealed.batch.declared, 2);
    assert.equal((await client.wait(id)).batch?.completed, 2);
  });

  it("spawns children and continues when they have ended", async () => {
    await work({
      types: {
        book: (item: Item, ctx) => {
          if (item.continuation?.name === "bind") return item.continuation.children.map((c) => c.result);
          return ctx.spawn([1, 2, 3].map((page) => ({ type: "page", params: { page } })), { continuation: "bind" });
        },
        page: (item: Item) => item.params.page * 10,
        none: (_item, ctx) => ctx.spawn([]),
        unwritable: (_item, ctx) => ctx.wait("go", { forMs: 1000, complete: { result: 1n } }),
        coded: () => {
          throw new WorkError("not found", { code: 404 as unknown as string, retryable: false });
        },
      },
    });
    const item = await client.wait(await submit("book"));
    assert.equal(item.state, "completed");
    assert.deepEqual(item.result, [10, 20, 30]);
    assert.equal((await client.wait(await submit("none"))).error?.code, "bad_spawn");
    const unwritable = await client.wait(await submit("unwritable"));
    assert.equal(unwritable.error?.code, "bad_outcome");
    const coded = await client.wait(await submit("coded"));
    assert.equal(coded.error?.code, "404");
  });

  it("takes large params and gives a large result", async () => {
    await work({ types: { large: (item: Item) => ({ echo: item.params.text }) } });
    const text = "x".repeat(400_000);
    const item = await client.wait(await submit("large", { text }));
    assert.equal(item.state, "completed");
    assert.deepEqual(await client.result(item), { echo: text });
  });

  it("refuses a second worker of the same id", async () => {
    await work({ id: "twin", types: { a: () => 1 } });
    const other = await engine.client();
    const twin = new Worker(other, { id: "twin", types: { a: () => 1 }, logger: quiet });
    await assert.rejects(twin.start(), code("worker_id_in_use"));
  });

  it("stops its runs at once when another session takes its id", async () => {
    const ask = async (endpoint: string, body: object): Promise<any> => (await client.connection.request(`work.api.${endpoint}`, JSON.stringify(body), { timeout: 10_000 })).json();
    const started = deferred();
    const reason = deferred<unknown>();
    const w = await work({
      id: "taken",
      types: {
        short: async (_item, ctx) => {
          started.resolve();
          reason.resolve(await aborted(ctx.signal));
          throw ctx.signal.reason;
        },
      },
    });
    const id = await submit("short");
    await started.promise;
    const { workers } = (await ask("workers", {})) as { workers: { worker: string; session: string }[] };
    const first = workers.find((w) => w.worker === "taken")!.session;
    let session: string | undefined;
    while (!session) {
      await ask("unregister", { worker: "taken", session: first }); // its heartbeat may have brought it back
      ({ session } = (await ask("register", { worker: "taken", session: "another", types: ["short"], slots: 1 })) as { session?: string });
    }
    assert.ok(code("lease_lost")(await reason.promise));
    await ask("unregister", { worker: "taken", session });
    await w.stop();
    const next = await work({ id: "next", types: { short: async () => "again" } });
    const item = await client.wait(id);
    assert.equal(item.result, "again");
    assert.equal(item.attempt, 1); // it was handed back: the first run used no attempt
    await next.stop();
  });

  it("registers at once when an engine that has become the owner calls all workers", async () => {
    const own = await Engine.start(`\n[workers]\nheartbeat_interval = "10m"\n\n[types.called]\nlease = "40m"\n`); // no heartbeat in this test
    try {
      const c = await own.client();
      const w = new Worker(c, { id: "called", types: { called: async () => "done" } });
      await w.start();
      const request = async (endpoint: string, body: object): Promise<any> => (await c.connection.request(`work.api.${endpoint}`, JSON.stringify(body), { timeout: 10_000 })).json();
      const seen = async (): Promise<string | undefined> => ((await request("workers", {})) as { workers: { worker: string; last_seen: string; status: string }[] }).workers.find((x) => x.worker === "called" && x.status === "active")?.last_seen;
      const first = await seen();
      assert.ok(first);
      await request("rebuild", {}); // after which the engine takes its log over anew
      const end = Date.now() + 60_000;
      for (let again: string | undefined = first; again === undefined || again === first; again = await seen()) {
        assert.ok(Date.now() < end, "the worker has not heard of the new owner");
        await sleep(5);
      }
      assert.equal((await c.wait((await c.submit({ type: "called", params: null })).id!)).result, "done");
      await w.stop();
    } finally {
      await own.close();
    }
  });

  it("ends when the engine drains it, after what it runs", async () => {
    const started = deferred();
    const go = deferred();
    const w = new Worker(client, {
      id: "drained",
      logger: quiet,
      concurrency: 1,
      types: {
        drained: async () => {
          started.resolve();
          await go.promise;
          return 1;
        },
      },
    });
    const ran = w.run();
    const first = await submit("drained");
    await started.promise;
    const second = await submit("drained");
    await client.request("drain", { worker: "drained" });
    go.resolve();
    await ran;
    assert.equal((await client.wait(first)).state, "completed");
    assert.equal((await client.get(second)).state, "queued");
    const { workers } = await client.request<{ workers: { worker: string }[] }>("workers");
    assert.ok(!workers.some((x) => x.worker === "drained"));
  });

  it("aborts what does not end within the drain, and hands it back", async () => {
    const started = deferred();
    const reason = deferred<unknown>();
    const w = await work({
      drainTimeoutMs: 50,
      types: {
        slow: async (_item, ctx) => {
          started.resolve();
          reason.resolve(await aborted(ctx.signal));
          throw ctx.signal.reason;
        },
      },
    });
    const id = await submit("slow");
    await started.promise;
    await w.stop();
    assert.ok(code("shutdown")(await reason.promise));
    const item = await client.get(id);
    assert.equal(item.state, "queued");
    assert.equal(item.attempt, 0);
  });

  it("runs only what its capabilities allow, from lanes that come later", async () => {
    await work({ types: { picture: () => "done" }, capabilities: ["gpu"] });
    const id = await submit("picture", null, { capabilities: ["gpu"] });
    const other = await submit("picture", null, { capabilities: ["tape"] });
    assert.equal((await client.wait(id)).state, "completed");
    assert.equal((await client.get(other)).state, "queued");
  });

  it("bounds one type below the others", async () => {
    let now = 0;
    let most = 0;
    const handler = async (): Promise<void> => {
      most = Math.max(most, ++now);
      await sleep(5);
      now--;
    };
    await work({ concurrency: 10, types: { limited: { handler, limit: 2 }, other: () => 1 } });
    const out = await client.submit(Array.from({ length: 30 }, () => ({ type: "limited" })));
    for (const o of out) await client.wait(o.id!);
    assert.equal(most, 2);
  });

  it("says what is wrong with its options", () => {
    const make = (o: Partial<WorkerOptions>): Worker => new Worker(client, { types: { a: () => 1 }, ...o });
    const wrong: Partial<WorkerOptions>[] = [{ types: {} }, { types: { "No Type": () => 1 } }, { concurrency: 0 }, { concurrency: 1_001 }, { id: "a b" }, { types: { a: { handler: () => 1, limit: 0 } } }];
    for (const o of wrong) {
      assert.throws(() => make(o), RangeError);
    }
  });
});
