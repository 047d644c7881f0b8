import { connect, Worker, WorkError } from "streamwright";

const client = await connect({ servers: process.env.NATS_URL, user: process.env.NATS_USER, pass: process.env.NATS_PASSWORD });
const worker = new Worker(client, {
  concurrency: 8,
  types: {
    email: async (item, ctx) => {
      const { to } = item.params;
      if (!to.includes("@")) throw new WorkError(`${to} is no address`, { code: "bad_address", retryable: false });
      ctx.log(`attempt ${item.attempt}: sending to ${to}`);
      await send(to, ctx.signal);
      return { sent: to };
    },
  },
});
await worker.run({ stopOn: ["SIGTERM", "SIGINT"] }); // finishes what runs, then resolves
await client.close();

// Stands for what takes long and can be given up.
async function send(to, signal) {
  await new Promise((resolve) => setTimeout(resolve, 50));
  signal.throwIfAborted();
}
