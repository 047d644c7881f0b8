import { connect } from "streamwright";

const client = await connect({ servers: process.env.NATS_URL, user: process.env.NATS_USER, pass: process.env.NATS_PASSWORD });
const { id } = await client.submit({ type: "email", params: { to: "ann@example.org" }, priority: 8 });
const item = await client.wait(id, { signal: AbortSignal.timeout(60_000) });
console.log(item.state, item.result);
for (const line of await client.logs(id)) console.log(line.level, line.message);

const results = await client.submit([{ type: "email", params: { to: "bob@example.org" } }, { type: "email", params: { to: "nobody" } }]);
for (const r of results) {
  const done = await client.wait(r.id);
  console.log(done.state, done.error?.code ?? "");
}
await client.close();
