// A worker with nothing but a NATS client, written from docs/reference/PROTOCOL.md.
//
//	engine serve &
//	npm install @nats-io/transport-node && node worker.mjs
import { connect } from "@nats-io/transport-node";
import { setTimeout as sleep } from "node:timers/promises";

const nc = await connect({ servers: process.env.NATS_URL ?? "nats://127.0.0.1:4222", maxReconnectAttempts: -1 });
const me = { worker: `node-${process.pid}`, session: crypto.randomUUID(), types: ["email"], slots: 4 };

// The handler. It must give up when signal is aborted.
async function handle(item, signal) {
  await sleep(item.params.takes_ms ?? 0, undefined, { signal }); // stands for the work
  if (!item.params.to) throw new Error("nobody to send it to");
  return { sent: item.params.to, resumed: item.checkpoint };
}

const passing = ["unavailable", "timeout", "not_owner", "internal", "queue_full"];
const runs = new Map(); // by token
let draining = false, fence = "", beat, every = 0, lease = 0, lost;

// Asks until there is an answer: an object, or the one element of an array.
async function ask(endpoint, body) {
  for (;; await sleep(500)) {
    try {
      const reply = [(await nc.request(`work.api.${endpoint}`, JSON.stringify(body), { timeout: 5_000 })).json()].flat()[0];
      if (reply.error?.code === "unknown_worker") await register();
      else if (!passing.includes(reply.error?.code)) return reply;
    } catch {} // no engine answers just now
  }
}

async function register() {
  const reply = await ask("register", me);
  if (reply.error) throw new Error(reply.error.message);
  every = reply.heartbeat_ms;
  lease = Math.min(...Object.values(reply.lease_ms));
  await heartbeat(); // says what runs
}

async function heartbeat() {
  const reply = await ask("heartbeat", { ...me, in_flight: [...runs.values()].map(({ id, token }) => ({ id, token })) });
  fence = reply.fence ?? "";
  if (reply.error) stopAll(); // the id is another worker's
  obey({ cancel: reply.cancel, drain: reply.should_drain });
  clearTimeout(beat);
  beat = setTimeout(heartbeat, every);
}

function obey({ cancel = [], drain, register: again }) {
  for (const { token } of cancel) runs.get(token)?.abort.abort();
  draining ||= drain === true;
  if (again) void register();
}

const stopAll = () => runs.forEach(({ abort }) => abort.abort());
const older = (a, b) => a.length < b.length || (a.length === b.length && a < b); // numbers in base 36

async function run(item) {
  const { id, token } = item;
  if (runs.has(token) || older(token, fence)) return;
  const abort = new AbortController();
  runs.set(token, { id, token, abort });
  const report = async (event, more) => {
    const reply = await ask("report", [{ id, token, worker: me.worker, session: me.session, event, ...more }]);
    if (reply.error) abort.abort(); // the run does not count any more
    return reply;
  };
  const late = draining ? undefined : setTimeout(report, 2, "start");
  let outcome = ["release", { reason: "stopped" }];
  try {
    if (!draining && !abort.signal.aborted) outcome = ["complete", { start: true, result: await handle(item, abort.signal) }];
  } catch (err) {
    if (!abort.signal.aborted) outcome = ["fail", { start: true, error: String(err), code: "node_error" }];
  }
  clearTimeout(late);
  const reply = await report(...outcome);
  runs.delete(token);
  console.log(id, outcome[0], reply.error?.code ?? "");
}

const own = (m) => !m.reply && !m.headers?.keys().some((k) => /^(status$|nats-)/i.test(k)); // the engine's
const hear = (subject, fn) => nc.subscribe(subject, { callback: (err, m) => (err ? console.error(err.message) : own(m) && fn(m.json())) });
hear(`work.run.*.${me.session}`, (items) => items.forEach((item) => void run(item)));
for (const name of [me.worker, "_all"]) hear(`work.control.${name}`, obey);
(async () => {
  for await (const { type } of nc.status()) {
    clearTimeout(lost);
    if (type === "disconnect") lost = setTimeout(stopAll, lease);
    else if (type === "reconnect") void register();
  }
})();
for (const signal of ["SIGTERM", "SIGINT"]) process.once(signal, () => (draining = true));
await register();
while (!draining || runs.size > 0) await sleep(50);
clearTimeout(beat);
await ask("unregister", { worker: me.worker, session: me.session });
await nc.close();
