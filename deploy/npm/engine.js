#!/usr/bin/env node
// Runs the engine's program, which is in the package of this platform, in place of itself: with its
// arguments, its streams, the signals that it gets, and its end.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { constants } from "node:os";

const name = `@streamwright/engine-${process.platform}-${process.arch}`;
let program;
try {
  program = createRequire(import.meta.url).resolve(`${name}/bin/streamwright${process.platform === "win32" ? ".exe" : ""}`);
} catch {
  console.error(`streamwright-engine: ${name} is not installed. Either there are no programs for this platform, or optional dependencies were left out (npm install --omit=optional).`);
  process.exit(1);
}

const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
// On a terminal ^C reaches the engine by itself, and a second interrupt would end it in the middle of its stop.
const onTerminal = process.stdin.isTTY || process.stdout.isTTY || process.stderr.isTTY;
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => {
    if (signal !== "SIGINT" || !onTerminal) child.kill(signal);
  });
}
child.on("error", (err) => {
  console.error(`streamwright-engine: ${program}: ${err.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
