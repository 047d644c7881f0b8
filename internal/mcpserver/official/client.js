// Uses engine mcp as an agent's program does, by the protocol's official client.
//
//	node client.js stdio PROGRAM ARGS...
//	node client.js http URL TOKEN
//
// It submits an item, sees it through and cancels another, and prints what it is told as lines of JSON.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [way, target, ...rest] = process.argv.slice(2);
const transport =
  way === "stdio"
    ? new StdioClientTransport({ command: target, args: rest, env: process.env, stderr: "inherit" })
    : new StreamableHTTPClientTransport(new URL(target), { requestInit: { headers: { Authorization: `Bearer ${rest[0]}` } } });
const client = new Client({ name: "official", version: "1" });
await client.connect(transport);

const say = (what, value) => console.log(JSON.stringify({ what, ...value }));
const call = async (name, args = {}) => {
  const { content, isError } = await client.callTool({ name, arguments: args });
  if (isError) return { refused: content[0].text };
  return JSON.parse(content[0].text);
};

say("server", { name: client.getServerVersion().name, instructions: client.getInstructions() });
const { tools } = await client.listTools();
say("tools", { count: tools.length, described: tools.every((t) => t.description && t.inputSchema.type === "object") });
const done = await call("submit_item", { type: "echo", params: { text: way }, idempotency_key: `${way}-done` });
say("waited", await call("wait_for_item", { id: done.id, timeout_seconds: 60 }));
const held = await call("submit_item", { type: "nobody", params: 1, idempotency_key: `${way}-held` });
say("why", await call("explain_item", { id: held.id }));
const args = { id: held.id, reason: "the test is over" };
const proposal = await call("cancel_item", args);
say("proposal", proposal);
say("cancelled", await call("cancel_item", { ...args, confirm: proposal.confirm }));
say("refused", await call("show_item", { id: "nonsense" }));
await client.close();
