// Every command, in the order the help text lists them. Adding one is a file in commands/ and a line here.

import type { Command } from "./command.js";
import { bench } from "./commands/bench.js";
import { devices } from "./commands/devices.js";
import { doctor } from "./commands/doctor.js";
import { generate } from "./commands/generate.js";
import { inspect } from "./commands/inspect.js";
import { perplexity } from "./commands/perplexity.js";
import { plan } from "./commands/plan.js";
import { synth } from "./commands/synth.js";
import { tokenize } from "./commands/tokenize.js";

export const COMMANDS: readonly Command[] = [generate, inspect, tokenize, perplexity, plan, bench, synth, devices, doctor];
