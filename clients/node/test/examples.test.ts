import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { describe, it } from "node:test";

import { Engine, repository } from "./harness.js";

const folder = join(repository, "clients/node");

describe("the README", { timeout: 120_000 }, () => {
  it("shows the examples as they are", () => {
    const readme = readFileSync(join(folder, "README.md"), "utf8");
    for (const name of ["worker.mjs", "producer.mjs"]) {
      const code = readFileSync(join(folder, "examples", name), "utf8");
      assert.ok(readme.includes("```js\n" + code + "```"), `README.md does not show examples/${name} as it is`);
    }
  });

  it("has examples that do what it says", async () => {
    const engine = await Engine.start();
    const run = (name: string) => spawn(process.execPath, [join(folder, "examples", name)], { env: { ...process.env, NATS_URL: engine.url }, stdio: ["ignore", "pipe", "inherit"] });
    const worker = run("worker.mjs");
    try {
      const producer = run("producer.mjs");
      const [out, [code]] = await Promise.all([text(producer.stdout), once(producer, "exit")]);
      assert.equal(code, 0);
      const readme = readFileSync(join(folder, "README.md"), "utf8");
      assert.ok(readme.includes("$ node producer.mjs\n" + out), `README.md does not show what the producer prints:\n${out}`);
      const exit = once(worker, "exit");
      worker.kill("SIGTERM");
      assert.deepEqual(await exit, [0, null]);
    } finally {
      worker.kill("SIGKILL");
      await engine.close();
    }
  });
});
