import assert from "node:assert/strict";
import { afterEach, describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { headers, type Msg, type MsgHdrs, type SubscriptionOptions } from "@nats-io/nats-core";

import { RunStopped, Worker, type Client, type Item, type WorkerOptions } from "../src/index.js";
import { readAssigned } from "../src/worker/run.js";
import { aborted, deferred, Engine } from "./harness.js";

const quiet = { debug() {}, info() {}, warn() {}, error() {} };

/** What goes over a worker's connection. */
interface Wire {
  assigned: Msg[];
  /** Has the worker receive a message of items, as if the server had sent it. */
  deliver(message: { data: string; reply?: string; headers?: MsgHdrs }): void;
  reports: { id: string; event: string; start?: boolean; reason?: string }[];
  /** Those that were answered. */
  heartbeats: { in_flight?: { id: string }[]; session?: string }[];
}

/** Records what goes over a client's connection from now on. */
function tap(client: Client): Wire {
  const nc = client.connection;
  const { subscribe, request } = nc;
  let receive: NonNullable<SubscriptionOptions["callback"]> = () => {};
  const wire: Wire = {
    assigned: [],
    deliver: ({ data, ...more }) => void receive(null, { data: Buffer.from(data), ...more } as unknown as Msg),
    reports: [],
    heartbeats: [],
  };
  nc.subscribe = (subject, options) => {
    if (!subject.startsWith("work.run.")) return subscribe.call(nc, subject, options);
    receive = options!.callback!;
    const callback: typeof receive = (err, msg) => {
      wire.assigned.push(msg);
      return receive(err, msg);
    };
    return subscribe.call(nc, subject, { ...options, callback });
  };
  nc.request = (subject, body, options) => {
    const said = (): any => JSON.parse(String(body));
    if (subject === "work.api.report") wire.reports.push(...said());
    const reply = request.call(nc, subject, body, options);
    if (subject === "work.api.heartbeat") void reply.then(() => wire.heartbeats.push(said()), () => {});
    return reply;
  };
  return wire;
}

/** Gives the items of a message another token. Those of an engine's first years are less than zzzzzzzz1. */
function withToken(data: string, token: string): string {
  return data.replace(/"token":"[^"]*"/, `"token":"${token}"`);
}

async function until(what: string, is: () => boolean): Promise<void> {
  for (const end = Date.now() + 30_000; !is(); await sleep(5)) assert.ok(Date.now() < end, what);
}

describe("assigned items", { timeout: 120_000 }, () => {
  const ends: (() => Promise<unknown>)[] = [];
  afterEach(async () => {
    for (const end of ends.splice(0).reverse()) await end();
  });

  async function start(more = ""): Promise<{ engine: Engine; client: Client }> {
    const engine = await Engine.start(more);
    ends.push(() => engine.close());
    return { engine, client: await engine.client() };
  }

  async function work(client: Client, options: WorkerOptions): Promise<Worker> {
    const w = new Worker(client, { logger: quiet, ...options });
    ends.push(() => w.stop());
    await w.start();
    return w;
  }

  it("run as they were submitted", async () => {
    const { client } = await start();
    const wire = tap(client);
    const items = new Map<string, Item>();
    await work(client, { types: { email: (item: Item) => void items.set(item.id, item) } });
    const text = '{"n":12345678901234567890,"s":"ü\\",\\"bytes\\":1,\\"params\\":"}';
    const nc = client.connection;
    for (const labels of ["", "bytes=1,params=ü"]) {
      const h = headers();
      if (labels) h.set("Work-Labels", labels);
      h.set("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
      const ack = await nc.request("work.submit.email", text, { timeout: 30_000, headers: h });
      const { id } = await client.getByIntake(ack.json<{ seq: number }>().seq);
      assert.equal((await client.wait(id)).state, "completed");
      const item = items.get(id)!;
      assert.equal(item.text, text);
      assert.deepEqual(item.labels, labels ? { bytes: "1", params: "ü" } : {});
      assert.match(item.trace!, /^00-4bf9/);
      assert.equal(item.attempt, 1);
      assert.ok(item.deadline!.getTime() > Date.now());
      assert.deepEqual((await client.history(id)).map((e) => e.kind), ["created", "queued", "claimed", "running", "completed"]);
    }
    assert.equal(wire.assigned.length, 2);
  });

  it("bring what earlier runs have left", async () => {
    const { client } = await start();
    const seen: unknown[] = [];
    await work(client, {
      types: {
        retried: async (item: Item, ctx) => {
          seen.push(item.checkpoint);
          if (item.attempt > 1) return item.attempt;
          await ctx.checkpoint({ page: 1, bytes: 3, params: [1] });
          throw new Error("in the midst");
        },
      },
    });
    const id = (await client.submit({ type: "retried" })).id!;
    assert.equal((await client.wait(id)).result, 2);
    assert.deepEqual(seen, [undefined, { page: 1, bytes: 3, params: [1] }]);
  });

  it("need one report if they are quick, and have their start reported if they are not", async () => {
    const { client } = await start();
    const wire = tap(client);
    const go = deferred();
    await work(client, { concurrency: 8, types: { quick: (item: Item) => (item.params === "slow" ? go.promise : 1) } });
    const many = await client.submit(Array.from({ length: 300 }, () => ({ type: "quick" })));
    for (const { id } of many) await client.wait(id!);
    const slow = (await client.submit({ type: "quick", params: "slow" })).id!;
    await until("the start is reported", () => wire.reports.some((r) => r.id === slow && r.event === "start"));
    go.resolve();
    assert.equal((await client.wait(slow)).state, "completed");
    const both = many.filter(({ id }) => wire.reports.filter((r) => r.id === id).map((r) => `${r.event} ${r.start}`).join() === "complete true");
    assert.ok(both.length > 100, `${both.length} of 300 quick runs had one report`);
  });

  it("leave those that are over a type's limit in the queue", async () => {
    const { client } = await start();
    const go = deferred();
    let now = 0;
    await work(client, {
      concurrency: 10,
      types: {
        limited: {
          limit: 2,
          handler: async () => {
            now++;
            await go.promise;
          },
        },
        other: () => 1,
      },
    });
    const limited = await client.submit(Array.from({ length: 6 }, () => ({ type: "limited" })));
    for (const { id } of await client.submit(Array.from({ length: 20 }, () => ({ type: "other" })))) await client.wait(id!);
    await until("two run", () => now >= 2);
    const states = await Promise.all(limited.map(async ({ id }) => (await client.get(id!)).state));
    assert.equal(states.filter((s) => s === "queued").length, 4, states.join());
    go.resolve();
    for (const { id } of limited) assert.equal((await client.wait(id!)).attempt, 1);
  });

  it("do not run if they come from an earlier owner of the log", async () => {
    const { client } = await start();
    const wire = tap(client);
    const runs: AbortSignal[] = [];
    const go = deferred();
    await work(client, { concurrency: 4, types: { email: (_: Item, ctx) => (runs.push(ctx.signal), go.promise) } });
    await client.submit({ type: "email" });
    await until("it runs", () => runs.length === 1);
    await until("the engine has answered a heartbeat", () => wire.heartbeats.length > 0);
    const data = wire.assigned[0]!.string();
    for (const token of ["1", "zzzzzzz", "zzzzzzzz1"]) wire.deliver({ data: withToken(data, token) });
    await until("the last runs, and is refused", () => runs[1]?.aborted === true);
    assert.equal(runs.length, 2);
    go.resolve();
  });

  it("run once if their message comes twice, and not at all if it is not the engine's", async () => {
    const { client } = await start();
    const wire = tap(client);
    const began: string[] = [];
    const go = deferred();
    const w = await work(client, {
      types: {
        email: async (item: Item) => {
          began.push(item.id);
          await go.promise;
        },
      },
    });
    const { id } = await client.submit({ type: "email" });
    await until("it runs", () => began.length > 0);
    const data = wire.assigned[0]!.string();
    const h = headers();
    h.set("Nats-Msg-Id", "1");
    wire.deliver({ data });
    wire.deliver({ data: withToken(data, "zzzzzzzz1"), reply: "work.api.info" });
    wire.deliver({ data: withToken(data, "zzzzzzzz2"), headers: h });
    wire.deliver({ data: "[nonsense]" });
    const second = (await client.submit({ type: "email" })).id!;
    await until("the second runs", () => began.includes(second));
    assert.deepEqual(began, [id, second]);
    go.resolve();
    await client.wait(second);
    await w.stop();
    assert.equal(w.stats().completed, 2);
  });

  it("are stopped when their start is refused, and handed back when there is no slot", async () => {
    const { client } = await start();
    const wire = tap(client);
    const began: Item[] = [];
    const reason = deferred<unknown>();
    await work(client, {
      concurrency: 2,
      types: {
        email: async (item: Item, ctx) => {
          began.push(item);
          if (item.params !== "fake") return 1;
          reason.resolve(await aborted(ctx.signal));
          throw ctx.signal.reason;
        },
      },
    });
    const { id } = await client.submit({ type: "email", params: "real" });
    await client.wait(id!);
    const data = wire.assigned[0]!.string();
    const fakes = Array.from({ length: 3 }, (_, n) => withToken(data, `zzzzzzzz${n}`).replace('"real"', '"fake"').slice(1, -1));
    const beats = wire.heartbeats.length;
    wire.deliver({ data: `[${fakes.join()}]` });
    const stopped = await reason.promise;
    assert.ok(stopped instanceof RunStopped && stopped.code === "lease_lost");
    assert.equal(began.length, 3); // the real one, and two of the three
    await until("one is handed back", () => wire.reports.some((r) => r.event === "release" && r.reason === "no_slot" && !r.start));
    await until("a heartbeat says what runs", () => wire.heartbeats.length > beats);
    assert.equal((await client.wait((await client.submit({ type: "email", params: "real" })).id!)).state, "completed");
  });

  it("go to another worker if they come while the worker ends", async () => {
    const { client } = await start();
    const started = deferred();
    const go = deferred();
    const first = await work(client, {
      id: "ending",
      concurrency: 2,
      types: {
        email: async () => {
          started.resolve();
          await go.promise;
        },
      },
    });
    const running = (await client.submit({ type: "email" })).id!;
    await started.promise;
    const ended = first.stop();
    const late = (await client.submit({ type: "email" })).id!;
    await until("it is handed back", () => first.stats().released > 0);
    assert.equal((await client.get(late)).attempt, 0);
    await work(client, { id: "heir", types: { email: () => "heir" } });
    const item = await client.wait(late);
    assert.deepEqual([item.result, item.attempt], ["heir", 1]);
    go.resolve();
    await ended;
    assert.equal((await client.wait(running)).worker, "ending");
  });

  it("are named in a heartbeat after each registration, and outlive a change of the owner", async () => {
    const { client } = await start('\n[workers]\nheartbeat_interval = "10m"\n\n[types.held]\nlease = "40m"\n'); // no other heartbeat in this test
    const wire = tap(client);
    const go = deferred();
    let runs = 0;
    await work(client, {
      concurrency: 3,
      types: {
        held: async (item: Item) => {
          runs++;
          await go.promise;
          return item.params as number;
        },
      },
    });
    await until("the first registration is followed by a heartbeat", () => wire.heartbeats.length === 1);
    const ids = (await client.submit([0, 1, 2, 3, 4].map((n) => ({ type: "held", params: n })))).map((r) => r.id!);
    await until("three run", () => runs === 3);
    await client.request("rebuild", {}); // after which the engine takes its log over anew, and calls all workers
    await until("the worker says what it runs", () => wire.heartbeats.length > 1);
    const named = wire.heartbeats.at(-1)!.in_flight!.map((r) => r.id);
    assert.deepEqual(named.sort(), ids.slice(0, 3).sort());
    assert.equal(new Set(wire.heartbeats.map((h) => h.session)).size, 1); // a worker keeps its session
    go.resolve();
    for (const [n, id] of ids.entries()) {
      const item = await client.wait(id);
      assert.deepEqual([item.result, item.attempt], [n, 1]);
    }
    assert.equal(runs, 5);
  });

  it("run once, whatever blocks the event loop", async () => {
    const { client } = await start('\n[workers]\nstart_timeout = "500ms"\n');
    const block = (ms: number): unknown => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
    const runs: string[] = [];
    await work(client, {
      concurrency: 2,
      types: {
        blocking: (item: Item) => {
          runs.push(item.id);
          block(2_000);
        },
      },
    });
    // The second becomes due, is assigned and goes back while the loop is blocked; then
    // both messages of it are there.
    const [a, b] = await client.submit([{ type: "blocking" }, { type: "blocking", delay_ms: 700 }]);
    for (const r of [a!, b!]) {
      const item = await client.wait(r.id!);
      assert.deepEqual([item.state, item.attempt], ["completed", 1]);
    }
    assert.deepEqual(runs, [a!.id, b!.id]);
  });
});

describe("a message of assigned items", () => {
  const item = (id: string, params: string, more = ""): string => `{"id":"${id}","type":"t","token":"k","attempt":1,"lease_ms":1000${more},"bytes":${Buffer.byteLength(params)},"params":${params}}`;
  const read = (text: string): string[] => readAssigned(new Uint8Array(Buffer.from(text))).map((a) => `${a.id} ${a.text}`);

  it("is read with the params' own text", () => {
    const params = ["1", "null", '"ü},{"', '{"bytes":1,"params":[ 1.0, 2e3 ]}', '[{"id":"x","bytes":2,"params":17}]'];
    assert.deepEqual(read(`[${params.map((p, n) => item(String(n), p)).join()}]`), params.map((p, n) => `${n} ${p}`));
    assert.deepEqual(read(`[${item("a", "1", ',"labels":{"b":"1","bytes":"2","params":",\\"bytes\\":1,\\"params\\":"},"later":[1]')}]`), ["a 1"]);
    const left = ',"checkpoint":{"x":"}]\\"","y":1,"bytes":2,"params":33}';
    assert.deepEqual(read(`[${item("a", "1", left)},${item("b", "2", ',"waited":{"signals":[{"x":1,"bytes":1,"params":3}]}')}]`), ["a 1", "b 2"]);
  });

  it("is refused if it is another", () => {
    for (const text of ["", "[]", "{}", "[1]", `[${item("a", "1")}`, `[${item("a", "1")},]`, `[${item("a", "1").replace('"bytes":1', '"bytes":9')}]`]) {
      assert.throws(() => read(text), SyntaxError, text);
    }
  });
});
