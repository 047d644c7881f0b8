import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";

import { connect as dial } from "@nats-io/transport-node";

import { Client, connect, StreamwrightError, type ConnectOptions, type wire, type WorkEvent } from "../src/index.js";
import { DedupBucket } from "../src/held.js";
import { IdSource, isId } from "../src/ids.js";
import { Names } from "../src/names.js";
import { Engine, login, secured } from "./harness.js";

const refused = (code: string) => (err: unknown) => err instanceof StreamwrightError && err.code === code;

const eventually = async (what: string, is: () => Promise<boolean>): Promise<void> => {
  for (const until = Date.now() + 30_000; !(await is()); ) {
    assert.ok(Date.now() < until, what);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
};

/** Follows a key through an item's life, as its submitter reads it, and another client reads and watches it. */
async function heldLife(client: Client, engine: Engine, login: ConnectOptions = {}): Promise<void> {
  const reader = await engine.client(login);
  const key = "project 17/\0*.>";
  const holder = (c: Client): Promise<string | undefined> =>
    c.holder("check", key).then((h) => h.id, (err: unknown) => {
      if (!refused("not_found")(err)) throw err;
      return undefined;
    });
  assert.equal(await holder(reader), undefined);
  const stop = new AbortController();
  const told = reader.watchHolder("check", key, { signal: stop.signal });
  assert.equal((await told.next()).value, null);
  const { id } = await client.submit({ type: "check", dedup_key: key });
  assert.deepEqual(await client.holder("check", key), { id, state: "queued" }); // what it was told it sees
  await eventually("the reader sees the holder", async () => (await holder(reader)) === id);
  assert.deepEqual((await told.next()).value, { id, state: "queued" });
  await client.cancel(id!);
  assert.equal((await told.next()).value, null);
  await eventually("the reader sees that the key is free", async () => (await holder(reader)) === undefined);
  stop.abort();
  assert.equal((await told.next()).done, true);
  await assert.rejects(reader.holder("No Type", key), refused("bad_type"));
  await assert.rejects(reader.holder("check", ""), refused("bad_request"));
  await assert.rejects(reader.watchHolder("No Type", key).next(), refused("bad_type"));
}

describe("client", { timeout: 120_000 }, () => {
  let engine: Engine;
  let client: Client;
  before(async () => {
    engine = await Engine.start();
    client = await engine.client();
  });
  after(() => engine.close());

  it("submits an item and reads its own write", async () => {
    const out = await client.submit({ type: "plain", params: { to: "ann" }, labels: { team: "a" }, priority: 8 });
    assert.equal(out.state, "queued");
    const item = await client.get(out.id!);
    assert.deepEqual(item.params, { to: "ann" });
    assert.equal(item.priority, 8);
    assert.deepEqual(item.labels, { team: "a" });
    const page = await client.list({ type: "plain" });
    assert.deepEqual(page.items.map((i) => i.id), [out.id]);
  });

  it("lets another client see what this one was told", async () => {
    const other = await engine.client();
    const out = await client.submit({ type: "seen" });
    other.saw(out.position);
    assert.equal((await other.get(out.id!)).id, out.id);
    assert.equal(other.position, client.position);
  });

  it("submits the same id once", async () => {
    const item = { type: "plain", id: new IdSource().next(), params: 1 };
    const first = await client.submit(item);
    const second = await client.submit(item);
    assert.equal(first.repeat, undefined);
    assert.equal(second.repeat, true);
    await assert.rejects(client.submit({ ...item, params: 2 }), refused("id_conflict"));
  });

  it("submits many, each on its own", async () => {
    const out = await client.submit([{ type: "many", params: 1 }, { type: "No Type" }, ...Array.from({ length: 1_500 }, (_, n) => ({ type: "many", params: n }))]);
    assert.equal(out.length, 1_502);
    assert.equal(out[0]!.error, undefined);
    assert.equal(out[1]!.error?.code, "bad_type");
    let n = 0;
    for await (const item of client.all({ type: "many", limit: 500 })) if (item.state === "queued") n++;
    assert.equal(n, 1_501);
  });

  it("removes a type that nothing uses, and previews ticks", async () => {
    await client.request("configure", { type: "mistyped", settings: { capacity: 3 } });
    await client.removeType("mistyped");
    await assert.rejects(client.removeType("mistyped"), refused("not_found"));
    const ticks = await client.ticks({ cron: "30 2 * * *", zone: "Europe/Berlin", count: 3 });
    assert.equal(ticks.length, 3);
    for (const tick of ticks) assert.match(tick, /T02:30:00\+0[12]:00$/);
    await assert.rejects(client.ticks({ cron: "nonsense" }), refused("bad_request"));
  });

  it("tells refusals by their code", async () => {
    await assert.rejects(client.submit({ type: "plain", priority: 99 }), refused("bad_priority"));
    await assert.rejects(client.get(new IdSource().next()), refused("not_found"));
    await assert.rejects(client.request("submit", { type: "plain", nonsense: 1 }), refused("bad_request"));
  });

  it("gets the item of a plain publish as soon as that is acknowledged", async () => {
    const nc = await dial({ servers: engine.url, ...login });
    try {
      for (let n = 0; n < 20; n++) {
        const ack = await nc.request("work.submit.published", JSON.stringify({ n }), { timeout: 30_000 });
        const item = await client.getByIntake(ack.json<{ seq: number }>().seq);
        assert.deepEqual(item.params, { n });
      }
    } finally {
      await nc.close();
    }
    await assert.rejects(client.getByIntake(1_000_000), refused("not_found"));
  });

  it("cancels, and waits for the end", async () => {
    const { id } = await client.submit({ type: "never" });
    const waiting = client.wait(id!);
    const out = await client.cancel(id!, "not needed");
    assert.equal(out.state, "cancelled");
    assert.equal(out.was_running, false);
    const item = await waiting;
    assert.equal(item.state, "cancelled");
    assert.equal(item.reason, "not needed");
    const history = await client.history(id!);
    assert.deepEqual(history.map((e) => e.kind), ["created", "queued", "cancelled"]);
    const acts = [];
    for await (const act of client.audit({ action: "cancelled", limit: 1 })) if (act.id === id) acts.push(act);
    assert.deepEqual(acts.map((a) => a.seq), [history[2]!.seq]);
    assert.ok(acts[0]!.by);
    assert.deepEqual(await client.logs(id!), []);
  });

  it("waits for the item that another was merged into", async () => {
    const first = await client.submit({ type: "merging", dedup_key: "k" });
    const second = await client.submit({ type: "merging", dedup_key: "k" });
    assert.equal(second.merged_into, first.id);
    const waiting = client.wait(second.id!);
    await client.cancel(first.id!);
    assert.equal((await waiting).id, first.id);
  });

  it("waits for any and for all of many", async () => {
    const ids = (await client.submit([{ type: "never" }, { type: "never" }, { type: "never" }])).map((r) => r.id!);
    const of = (w: wire.Waited) => [w.ended.map((i) => i.id), (w.pending ?? []).map((p) => p.id)];
    await client.cancel(ids[1]!);
    assert.deepEqual(of(await client.waitAny(ids)), [[ids[1]], [ids[0], ids[2]]]);
    assert.deepEqual(of(await client.waitAll(ids, { timeoutMs: 20 })), [[ids[1]], [ids[0], ids[2]]]);
    const waiting = client.waitAll([...ids].reverse(), { timeoutMs: 60_000 });
    await client.cancel(ids[0]!);
    await client.cancel(ids[2]!);
    assert.deepEqual(of(await waiting), [[...ids].reverse(), []]);
    await assert.rejects(client.waitAny([...ids, "01J00000000000000000000000"]), refused("not_found"));
  });

  it("starts or wakes an item by a submission with a signal", async () => {
    const key = { type: "never", dedup_key: "order-4711" };
    const first = await client.submit({ ...key, signal: { name: "paid", payload: { sum: 3 } } });
    const again = { ...key, id: "01JD3V6YB2M4C9W8ZK5T7QXRNF", signal: { name: "refused", msg_id: "hook-1" } };
    for (let n = 0; n < 2; n++) assert.equal((await client.submit(again)).merged_into, first.id);
    const names = (await client.history(first.id!)).filter((e) => e.kind === "signalled").map((e) => (e.data as { name: string }).name);
    assert.deepEqual(names, ["paid", "refused"]);
  });

  it("ends a wait by its signal", async () => {
    const { id } = await client.submit({ type: "never" });
    const says = (text: string) => (err: unknown) => refused("timeout")(err) && (err as Error).message === `${text}; it goes on, and can be waited for again`;
    await assert.rejects(client.wait(id!, { signal: AbortSignal.timeout(50) }), says(`item ${id} has not ended in the time given for it`));
    await assert.rejects(client.wait(id!, { signal: AbortSignal.abort() }), says(`stopped waiting for item ${id}`));
  });

  it("ends a list that may lack items with an error, behind those that it has", async () => {
    const pages = [{ items: [{ id: "a" }], next_cursor: "c", stale: "as of position 7" }, { items: [{ id: "b" }] }];
    const behind = Object.assign(Object.create(Client.prototype) as Client, { list: async () => pages.shift()! });
    const seen: unknown[] = [];
    await assert.rejects(async () => {
      for await (const item of behind.all()) seen.push(item.id);
    }, refused("unavailable"));
    assert.deepEqual(seen, ["a", "b"]);
  });

  it("puts large params into the object store and gets them back", async () => {
    const params = { text: "ü".repeat(300_000) };
    const { id } = await client.submit({ type: "large", params });
    const item = await client.get(id!);
    assert.ok((item.params as { $blob: { size: number } }).$blob.size > 600_000);
    assert.deepEqual(await client.params(item), params);
    const small = await engine.client({ maxDocument: 1_000 });
    await assert.rejects(small.submit({ type: "large", params }), refused("too_large"));
    await assert.rejects(small.params(item), refused("too_large"));
  });

  it("tells the events of an item, live, and all again from a position", async () => {
    const stop = new AbortController();
    const { id } = await client.submit({ type: "watched" });
    const first = (await client.history(id!))[0]!;
    const seen: WorkEvent[] = [];
    for await (const e of client.events({ id: id!, fromSeq: first.seq, signal: stop.signal })) {
      seen.push(e);
      if (e.kind === "queued") void client.cancel(id!);
      if (e.kind === "cancelled") break;
    }
    assert.deepEqual(seen.map((e) => e.kind), ["created", "queued", "cancelled"]);
    assert.deepEqual(seen.map((e) => e.seq), (await client.history(id!)).map((e) => e.seq));

    const acme = await client.submit({ type: "watched", tenant: "acme", labels: { region: "eu" } });
    for await (const e of client.events({ tenant: "acme", label: "region=eu", fromSeq: first.seq, signal: stop.signal })) {
      assert.equal(e.id, acme.id);
      if (e.kind === "queued") break;
    }

    const live = client.events({ types: ["watched"], kinds: ["created", "queued"], signal: stop.signal });
    const next = live.next();
    const other = await client.submit({ type: "other" });
    const again = await client.submit({ type: "watched" });
    assert.notEqual(other.id, again.id);
    // Whether the feed stood before the submission is its own affair: submit until it tells.
    const timer = setInterval(() => void client.submit({ type: "watched" }), 200);
    const told = await next;
    clearInterval(timer);
    assert.equal(told.value?.type, "watched");
    stop.abort();
    assert.equal((await live.next()).done, true);
  });

  it("tells who holds a dedup key", async () => {
    await heldLife(client, engine);
    const { link, names } = client;
    assert.equal(await new DedupBucket(link, names).holder("check", "nobody's", 0n), secured ? undefined : null, "whether the bucket can be read");
  });

  it("refuses what it can't ask for", async () => {
    await assert.rejects(client.events({ types: ["No Type"] }).next(), refused("bad_type"));
    await assert.rejects(client.events({ id: "1" }).next(), refused("bad_id"));
    await assert.rejects(client.events({ fromSeq: 1, since: new Date() }).next(), refused("bad_request"));
  });

  it("says what is wrong when it can't connect", async () => {
    await assert.rejects(connect({ servers: "127.0.0.1:1", timeout: 500 }), refused("unavailable"));
    await assert.rejects(connect({ servers: engine.url, credsFile: "/nonexistent.creds" }), /ENOENT/);
    await assert.rejects(connect({ servers: engine.url, tls: {} }), refused(secured ? "unauthenticated" : "unavailable"));
    await assert.rejects(connect({ servers: engine.url, prefix: "a..b" }), RangeError);
  });
});

describe("namespaces", { timeout: 120_000 }, () => {
  it("have names of their own, in the account and the domain of all", () => {
    const acme = new Names("work", "", "acme");
    assert.deepEqual([acme.submit("email"), acme.bucket("dedup"), acme.importDomain, acme.namespace], ["work-acme.submit.email", "work-acme_dedup", "work", "acme"]);
    assert.equal(new Names("jobs.eu", "", "team-2").prefix, "jobs.eu-team-2");
    assert.equal(new Names("jobs.eu", "", "team-2").importDomain, "jobs_eu");
    assert.deepEqual([new Names().namespace, new Names("work", "", "default").prefix, new Names("work-acme").namespace], ["default", "work", "acme"]);
    for (const bad of ["", "A", "a_b", "a.b", "a--b", "x".repeat(33)]) assert.throws(() => new Names("work", "", bad), RangeError);
  });

  it("are asked by their clients", async () => {
    const engine = await Engine.start("", { open: true });
    const nc = await dial({ servers: engine.url });
    try {
      await assert.rejects(connect({ servers: engine.url, namespace: "Acme" }), RangeError);
      const client = await engine.client({ namespace: "acme", patienceMs: 50 });
      assert.equal(client.namespace, "acme");
      await assert.rejects(client.list(), /no engine answers work-acme\.api\.list .*engine namespace list/);
      nc.subscribe("work-acme.api.list", { callback: (_, msg) => void msg.respond(JSON.stringify({ items: [], position: "7" })) });
      await nc.flush();
      assert.deepEqual((await client.list()).items, []);
    } finally {
      await nc.close();
      await engine.close();
    }
  });
});

describe("client without an engine", { timeout: 120_000 }, () => {
  it("tries a submission until an engine answers, and makes one item", async () => {
    const engine = await Engine.start();
    try {
      let tries = 0;
      const client = await engine.client({ onRetry: () => tries++ });
      await engine.stop();
      const submitted = client.submit({ type: "patient", params: 1 });
      const many = client.submit([{ type: "patient", params: 2 }, { type: "patient", params: 3 }]);
      await assert.rejects(client.list(), refused("unavailable"));
      await engine.start();
      const { id } = await submitted;
      assert.ok((await many).every((r) => !r.error));
      assert.ok(tries > 0, "no try failed");
      const page = await client.list({ type: "patient" });
      assert.equal(page.items.length, 3);
      assert.ok(page.items.some((i) => i.id === id));
    } finally {
      await engine.close();
    }
  });

  it("says what the nodes know while none owns the log", async () => {
    const engine = await Engine.start("", { open: true }); // the test answers as a node
    const nc = await dial({ servers: engine.url });
    const client = await connect({ servers: engine.url, prefix: "gone", patienceMs: 50, submitPatienceMs: 50 });
    try {
      await assert.rejects(client.list(), /no engine answers gone\.api\.list .*is `engine serve` running there/);
      nc.subscribe("gone.api.nodes", {
        callback: (_, msg) => void msg.respond(JSON.stringify({ answered: "n1", nodes: [], warnings: ["stream GONE_EVENTS_0 has no leader since 08:34"] })),
      });
      await nc.flush();
      const known = /no node owns the log at .*: `engine cluster` shows all nodes; n1 says: stream GONE_EVENTS_0 has no leader since 08:34/;
      await assert.rejects(client.list(), known);
      await assert.rejects(client.submit({ type: "a" }), known);
    } finally {
      await client.close();
      await nc.close();
      await engine.close();
    }
  });

  it("tells who holds a dedup key to a user in an account of its own", async () => {
    const pass = "correct horse battery";
    const user = (name: string, roles: string): string => `[[nats.users]]\nname = "${name}"\npassword = "${pass}"\nroles = [${roles}]\n`;
    const engine = await Engine.start(user("both", `"submit", "read", "operate"`) + user("ops", `"read"`) + user("feeder", `"submit"`));
    try {
      await heldLife(await engine.client({ user: "both", pass }), engine, { user: "ops", pass });
      const feeder = await engine.client({ user: "feeder", pass });
      await assert.rejects(feeder.holder("check", "k"), refused("forbidden"));
    } finally {
      await engine.close();
    }
  });

  it("feeds on after an engine's restart, with nothing left out", async () => {
    const engine = await Engine.start();
    try {
      const client = await engine.client();
      const seen: WorkEvent[] = [];
      const feed = client.events({ types: ["kept"], kinds: ["created"], fromSeq: 1 });
      await client.submit({ type: "kept", params: 1 });
      seen.push((await feed.next()).value!);
      await engine.stop("SIGKILL");
      await engine.start();
      await client.submit({ type: "kept", params: 2 });
      seen.push((await feed.next()).value!);
      assert.deepEqual(seen.map((e) => (e.data as { params: number }).params), [1, 2]);
      await feed.return();
    } finally {
      await engine.close();
    }
  });
});

describe("ids", { timeout: 120_000 }, () => {
  it("rise, within a millisecond and when the clock goes back", () => {
    const ids = new IdSource();
    const made = [ids.next(5), ids.next(5), ids.next(4), ids.next(6)];
    assert.deepEqual([...made].sort(), made);
    assert.ok(made.every(isId));
    assert.equal(new Set(made).size, 4);
  });
});
