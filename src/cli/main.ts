#!/usr/bin/env node
// The `rocmforge` command: hands the arguments to `run` and leaves with its status once everything is written. A GPU's
// driver takes longer to start than everything else to load, so it is started before that.

import { startDriverAhead } from "./early-driver-start.js";

const args = process.argv.slice(2);
try {
  await startDriverAhead(args);
  const { run } = await import("./run.js");
  process.exitCode = await run(args);
} catch (error) {
  // `run` tells what goes wrong in it. Here the program's own files could not be read, so the words are all in this one.
  const reason = error instanceof Error ? error.message : String(error);
  const advice = /^(?:EMFILE|ENFILE)\b/.test(reason)
    ? "raise the limit of open files (`ulimit -n 4096`)"
    : "install the package anew";
  process.stderr.write(`rocmforge: the program could not be loaded: ${reason}; ${advice}\n`);
  process.exitCode = 1;
}
