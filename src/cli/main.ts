#!/usr/bin/env node
// The `rocmforge` command: hands the arguments to `run` and leaves with its status once everything is written.

import { run } from "./run.js";

process.exitCode = await run(process.argv.slice(2));
