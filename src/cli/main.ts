#!/usr/bin/env node
// The `rocmforge` command: hands the arguments to `run` and leaves with its status once everything is written. A GPU's
// driver takes longer to start than everything else to load, so it is started before that.

import { startDriverAhead } from "./driver-ahead.js";

const args = process.argv.slice(2);
await startDriverAhead(args);
const { run } = await import("./run.js");
process.exitCode = await run(args);
