// Builds the engine that the tests run against, unless STREAMWRIGHT_ENGINE names one.
import { execFileSync } from "node:child_process";

import { builtEngine, repository } from "./harness.js";

if (!process.env["STREAMWRIGHT_ENGINE"]) {
  execFileSync("go", ["build", "-o", builtEngine, "./cmd/engine"], { cwd: repository, stdio: "inherit" });
}
