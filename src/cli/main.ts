#!/usr/bin/env node
// The `rocmforge` command: passes the arguments to `run` and exits with its status once all output is written. A GPU's
// driver takes longer to start than all modules to load, so it is started first.

import { startDriverFor } from "./early-driver-start.js";

const args = process.argv.slice(2);
try {
  await startDriverFor(args);
  const { run } = await import("./run.js");
  process.exitCode = await run(args);
} catch (error) {
  // `run` reports its own errors. This one means that the program's own files could not be read, so nothing else is
  // imported.
  const reason = error instanceof Error ? error.message : String(error);
  const advice = /^(?:EMFILE|ENFILE)\b/.test(reason)
    ? "raise the limit of open files (`ulimit -n 4096`)"
    : "reinstall the package";
  process.stderr.write(`rocmforge: the program could not be loaded: ${reason}; ${advice}\n`);
  process.exitCode = 1;
}
