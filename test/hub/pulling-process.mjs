// Pulls a model in a process of its own, which a test may kill: `node pulling-process.mjs NAME CHUNK_BYTES`.

import { pullNamedModel } from "../../dist/hub/resolve-model.js";

const [name, chunkBytes] = process.argv.slice(2);
await pullNamedModel(
  name,
  { backend: "reference" },
  { chunkBytes: Number(chunkBytes), policy: { tries: 6, firstPauseMs: 5, longestPauseMs: 1000, silenceMs: 30_000 } },
);
