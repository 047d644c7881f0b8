import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";

import { Worker, type Client, type Item, type RunStopped } from "../src/index.js";
import { aborted, ChildWorker, deferred, Engine } from "./harness.js";

describe("worker processes", { timeout: 120_000 }, () => {
  let engine: Engine;
  let client: Client;
  let dir: string;
  before(async () => {
    engine = await Engine.start();
    client = await engine.client();
    dir = mkdtempSync(join(tmpdir(), "streamwright-node-files-"));
  });
  after(async () => {
    await engine.close();
    rmSync(dir, { recursive: true, force: true });
  });

  it("finishes what runs on SIGTERM, and takes no more", async () => {
    const until = join(dir, "go-1");
    const w = new ChildWorker(engine.url, "polite");
    const first = (await client.submit({ type: "held", params: { until } })).id!;
    await w.line(`started ${first} 1`);
    const second = (await client.submit({ type: "held", params: { until } })).id!;
    w.kill("SIGTERM");
    await w.line("asked to stop");
    writeFileSync(until, "");
    assert.deepEqual(await w.exit, [0, null]);
    assert.ok(w.lines.includes("stopped"));
    assert.ok(!w.lines.some((l) => l.includes(second)), "it has taken another item");
    const item = await client.wait(first);
    assert.equal(item.state, "completed");
    assert.deepEqual(item.result, { by: "polite" });
    assert.equal((await client.get(second)).state, "queued");
    await client.cancel(second);
  });

  it("has its item run elsewhere when it is killed", async () => {
    const until = join(dir, "go-2");
    const w = new ChildWorker(engine.url, "killed");
    const id = (await client.submit({ type: "short", params: { until } })).id!;
    await w.line(`started ${id} 1`);
    w.kill("SIGKILL");
    await w.exit;
    const other = new ChildWorker(engine.url, "heir");
    await other.line(`started ${id} 2`);
    writeFileSync(until, "");
    const item = await client.wait(id);
    assert.deepEqual(item.result, { by: "heir" });
    assert.equal(item.leases_lost, 1);
    other.kill("SIGTERM");
    await other.exit;
  });
});

describe("worker and an engine's restart", { timeout: 120_000 }, () => {
  it("goes on: what runs is completed once, and new items are taken", async () => {
    for (const signal of ["SIGTERM", "SIGKILL"] as const) {
      const engine = await Engine.start();
      try {
        const client = await engine.client();
        const started = deferred();
        const go = deferred();
        let runs = 0;
        const worker = new Worker(client, {
          logger: { debug() {}, info() {}, warn() {}, error() {} },
          types: {
            held: async (item: Item) => {
              if (item.params === "next") return "next";
              runs++;
              started.resolve();
              await go.promise;
              return "kept";
            },
          },
        });
        await worker.start();
        const id = (await client.submit({ type: "held", params: "first" })).id!;
        await started.promise;
        await engine.stop(signal);
        go.resolve(); // it reports while no engine is there
        await engine.start();
        const item = await client.wait(id);
        assert.equal(item.result, "kept");
        assert.equal(runs, 1);
        assert.equal(item.attempt, 1);
        const next = (await client.submit({ type: "held", params: "next" })).id!;
        assert.equal((await client.wait(next)).result, "next");
        await worker.stop();
      } finally {
        await engine.close();
      }
    }
  });

  it("takes its runs for lost after a whole lease without a connection", async () => {
    const engine = await Engine.start();
    try {
      const client = await engine.client();
      const started = deferred();
      const reason = deferred<unknown>();
      let runs = 0;
      const worker = new Worker(client, {
        logger: { debug() {}, info() {}, warn() {}, error() {} },
        types: {
          short: async (item: Item, ctx) => {
            if (++runs > 1) return item.attempt; // it was handed back: no attempt is used
            started.resolve();
            reason.resolve(await aborted(ctx.signal));
            throw ctx.signal.reason;
          },
        },
      });
      await worker.start();
      const id = (await client.submit({ type: "short" })).id!;
      await started.promise;
      await engine.stop("SIGKILL");
      assert.equal((await reason.promise as RunStopped).code, "lease_lost");
      assert.equal(worker.stats().leasesLost, 1);
      await engine.start();
      const item = await client.wait(id);
      assert.equal(item.state, "completed");
      assert.equal(runs, 2);
      await worker.stop();
    } finally {
      await engine.close();
    }
  });
});

describe("worker that stops before its registration is answered", { timeout: 120_000 }, () => {
  it("leaves again", async () => {
    const engine = await Engine.start();
    try {
      const client = await engine.client();
      const nc = client.connection;
      const { request } = nc;
      const registered = deferred();
      const late = deferred();
      nc.request = async (subject, ...rest) => {
        const reply = await request.call(nc, subject, ...rest);
        if (subject === "work.api.register") {
          registered.resolve();
          await late.promise;
        }
        return reply;
      };
      const worker = new Worker(client, { id: "late", logger: { debug() {}, info() {}, warn() {}, error() {} }, types: { email: () => 1 } });
      const started = worker.start();
      await registered.promise;
      await worker.stop();
      late.resolve();
      await started;
      const { workers } = await client.request<{ workers: { worker: string; status: string }[] }>("workers");
      assert.deepEqual(workers.filter((w) => w.worker === "late" && w.status === "active"), []);
      assert.equal(worker.stats().registered, false);
    } finally {
      await engine.close();
    }
  });
});
