// Synthetic files of `rocmforge synth` in llama.cpp: a few layers of each recent shape load there and compute.

import { rmSync } from "node:fs";
import { afterAll, describe, expect, it } from "vitest";
import { synthPlan } from "../../src/cli/synth/model-plan.js";
import { RECENT_SHAPES } from "../../src/cli/synth/recent-shapes.js";
import type { ModelShape } from "../../src/cli/synth/shape.js";
import type { MixName } from "../../src/cli/synth/type-mix.js";
import { writeGguf } from "../../src/gguf/writer.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { peerIsInstalled } from "./llama-cpp.js";
import { peerLogits } from "./peer-logits.js";

/** Gemma has a full layer after five with windows. */
const LAYERS: Readonly<Record<string, number>> = { gemma3: 6, gemma4: 6 };
const CASES = Object.entries(RECENT_SHAPES).map(([name, shape]: readonly [string, ModelShape]) => ({
  name,
  shape: { ...shape, layers: LAYERS[shape.architecture] ?? 2 },
  mix: (shape.architecture === "gpt-oss" ? "MXFP4_MOE" : "Q4_K") satisfies MixName as MixName,
}));

const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());

describe.skipIf(!peerIsInstalled)("in llama.cpp (skipped if bench/peers is not installed)", () => {
  it.each(CASES)("$name in $mix", async ({ name, shape, mix }) => {
    const path = folder.file("shape.gguf");
    await writeGguf(path, synthPlan(name, shape, { mix, seed: 1 }));
    try {
      const { size } = shape.vocabulary;
      const logits = await peerLogits(path, Int32Array.of(5, 600, 70), size);
      expect(logits).toHaveLength(3 * size);
      expect(logits.every((logit) => Number.isFinite(logit))).toBe(true);
      expect(new Set(logits).size).toBeGreaterThan(1000);
    } finally {
      rmSync(path);
    }
  });
});
