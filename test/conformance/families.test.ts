// Random models of every family on every instruction set and on the emulated device against `reference`: windows, sinks, latent
// attention, experts. All weights are F32, so what is left is f32 in another order, and on the GPU f16 in prompts; in
// deterministic mode GPUs have f32 there, too.

import { afterAll, expect, it } from "vitest";
import { ReferenceBackend } from "../../src/backends/reference/backend.js";
import type { Backend } from "../../src/backends/contract.js";
import { writeGguf } from "../../src/gguf/writer.js";
import { Model } from "../../src/model/model.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { familyModel } from "./models/family-model.js";
import { FAMILY_NAMES, type FamilyCase, familyCase } from "./models/family-shapes.js";
import { distance } from "./models/log-probabilities.js";
import { randomTokens } from "./models/random-model.js";
import { describeSubjects } from "./subjects.js";
import { FULL_RUN } from "../support/full-run.js";

const TOKENS = 40;
const LARGEST_DIFFERENCE = 5e-3;
/** Rounding to f16 may turn the choice of an expert at a single token, which does not count. */
const LARGEST_DIVERGENCE = 0.02;

const CASES = FAMILY_NAMES.flatMap((family) =>
  Array.from({ length: FULL_RUN ? 3 : 1 }, (_, number) => familyCase(family, number)),
);
/** For subjects that are slow: latent attention and experts; those of gpt-oss are in expert-networks.test.ts. */
const FEW_CASES = CASES.filter(({ name }) => name === "deepseek2, shape 0");

const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());

async function logitsOf(path: string, backend: Backend, seed: number): Promise<Float32Array> {
  await using model = await Model.open(path, backend, { kvCacheType: "f32", contextTokens: TOKENS });
  return await model.logits(randomTokens(seed, TOKENS));
}

interface Prepared {
  readonly path: string;
  /** What `reference` gives. */
  readonly expected: Float32Array;
}

const prepared = new Map<string, Promise<Prepared>>();

/** Written and computed by `reference` once for all subjects. */
function prepare(randomCase: FamilyCase): Promise<Prepared> {
  const made = prepared.get(randomCase.name) ?? write(randomCase);
  prepared.set(randomCase.name, made);
  return made;
}

async function write({ name, seed, shape }: FamilyCase): Promise<Prepared> {
  const path = folder.file(`${name.replaceAll(/\W+/g, "-")}.gguf`);
  await writeGguf(path, familyModel(seed, shape));
  return { path, expected: await logitsOf(path, new ReferenceBackend(), seed) };
}

describeSubjects(
  (subject) => {
    it.for(subject.spread(CASES, FEW_CASES))("$name", async (randomCase) => {
      const { path, expected } = await prepare(randomCase);
      const width = randomCase.shape.vocabularySize ?? 0;
      const { seed } = randomCase;
      const exact = await logitsOf(path, subject.create({ deterministic: subject.promptsInHalves }), seed);
      expect(distance(exact, expected, width).largest).toBeLessThan(LARGEST_DIFFERENCE);
      if (!subject.promptsInHalves) return;
      const found = await logitsOf(path, subject.create(), seed);
      expect(distance(found, expected, width).divergenceOfOthers).toBeLessThan(LARGEST_DIVERGENCE);
    });
  },
  { waveSize: 32 },
);
