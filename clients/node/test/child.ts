// A worker process for tests: it says what it does on standard output. Its item
// waits until a file named by its params exists, or until it must stop.
import { existsSync } from "node:fs";
import { setTimeout as after } from "node:timers/promises";

import { connect, Worker, type Handler } from "../src/index.js";
import { login } from "./harness.js";

const say = (text: string): void => void process.stdout.write(`${text}\n`);
const client = await connect({ servers: process.env["NATS_URL"]!, ...login });
const hold: Handler<{ until: string }> = async (item, ctx) => {
  say(`started ${item.id} ${item.attempt}`);
  while (!existsSync(item.params.until)) {
    ctx.signal.throwIfAborted();
    await after(20);
  }
  say(`finished ${item.id}`);
  return { by: process.env["WORKER_ID"] };
};
const worker = new Worker(client, { id: process.env["WORKER_ID"]!, types: { short: hold, held: hold }, concurrency: 1 });
process.once("SIGTERM", () => say("asked to stop"));
await worker.run({ stopOn: ["SIGTERM"] });
say("stopped");
await client.close();
