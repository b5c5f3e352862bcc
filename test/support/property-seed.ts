// Before each test file with properties: in `npm test` they draw the same cases each time, so that a change is judged by
// what it changes; full runs draw new ones, and a failure prints the seed that reproduces it.

import fc from "fast-check";
import { FULL_RUN } from "./full-run.js";

const SEED = 20_261_118;

if (!FULL_RUN) fc.configureGlobal({ seed: SEED });
