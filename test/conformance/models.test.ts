// Whole models on every instruction set against `reference`: every family and block type, prompts and single tokens.
// Activations rounded to 8 bits cost something, so the bound is on the distributions, not on the bits.

import { afterAll, expect, it } from "vitest";
import type { Backend } from "../../src/backends/contract.js";
import { Model } from "../../src/model/model.js";
import { writeGguf } from "../../src/gguf/writer.js";
import { SUPPORTED } from "../../src/quant/layout.js";
import { ReferenceBackend } from "../../src/backends/reference/backend.js";
import { RocmForgeError } from "../../src/errors.js";
import { GEMMA_CASES, GEMMA_TOKENS } from "./models/gemma-cases.js";
import { distance } from "./models/log-probabilities.js";
import { randomModel, type RandomModelSpec, randomTokens } from "./models/random-model.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { describeSubjects } from "./subjects.js";
import { FULL_RUN } from "../support/full-run.js";

const TOKENS = 24;
/** These models have logits of deviation 3 and sharp attention, which make the most of every rounding. */
const LARGEST_DIVERGENCE = 0.01;
/** Weights that are not rounded against: what is left is f32 in another order. */
const LARGEST_PLAIN_DIFFERENCE = 2e-3;
/** The same over more layers, as many as 62. */
const LARGEST_GEMMA_DIFFERENCE = 1e-2;

const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());

const FAMILIES: readonly RandomModelSpec["architecture"][] = ["llama", "qwen2", "qwen3", "glm4"];
const WIDE_GEMMA_CASES = GEMMA_CASES.filter(({ name }) => /heads of 256 and a window/.test(name));
const SOME_GEMMA_CASES = FULL_RUN
  ? GEMMA_CASES
  : GEMMA_CASES.filter((wanted, index) => index % 6 === 0 || WIDE_GEMMA_CASES.includes(wanted));
const FEW_TYPES = SUPPORTED.filter(({ name }) => name === "Q4_K");

const BASE: Omit<RandomModelSpec, "seed" | "architecture" | "types"> = {
  width: 256,
  heads: 4,
  kvHeads: 2,
  feedForward: 512,
  layers: 2,
  vocabulary: 300,
  context: 128,
  epsilon: 1e-5,
};

async function logitsOf(
  path: string,
  backend: Backend,
  kvCacheType: "f32" | "f16",
  tokens = TOKENS,
): Promise<Float32Array> {
  await using model = await Model.open(path, backend, { kvCacheType });
  return await model.logits(randomTokens(4, tokens));
}

interface Prepared {
  readonly path: string;
  /** What `reference` gives. */
  readonly expected: Float32Array;
}

const prepared = new Map<string, Promise<Prepared>>();

/** Written and computed by `reference` once for all subjects. */
function prepare(name: string, spec: RandomModelSpec, tokens = TOKENS): Promise<Prepared> {
  const made = prepared.get(name) ?? write(name, spec, tokens);
  prepared.set(name, made);
  return made;
}

async function write(name: string, spec: RandomModelSpec, tokens: number): Promise<Prepared> {
  const path = folder.file(`${name.replaceAll(/\W+/g, "-")}.gguf`);
  await writeGguf(path, randomModel(spec));
  return { path, expected: await logitsOf(path, new ReferenceBackend(), "f32", tokens) };
}

/** The backend's own reason if it cannot run a model of this file. */
async function unsupportedReason(path: string, backend: Backend): Promise<string | undefined> {
  try {
    const model = await Model.open(path, backend);
    await model[Symbol.asyncDispose]();
    return undefined;
  } catch (error) {
    if (error instanceof RocmForgeError && error.code === "BACKEND_UNSUPPORTED") return error.message;
    throw error;
  }
}

describeSubjects((subject) => {
  it.each(subject.spread(FAMILIES, ["qwen3"]))("%s in plain floats", async (architecture) => {
    const { path, expected } = await prepare(`plain ${architecture}`, {
      ...BASE,
      seed: 5,
      architecture,
      types: ["F32", "F16", "BF16"],
      ropeFactors: architecture === "llama",
    });
    const found = await logitsOf(path, subject.create(), "f32");
    expect(distance(found, expected, BASE.vocabulary).largest).toBeLessThan(LARGEST_PLAIN_DIFFERENCE);
  });

  it.for(subject.spread(SOME_GEMMA_CASES, []))("$name", async ({ name, spec }, { skip }) => {
    const { path, expected } = await prepare(name, spec, GEMMA_TOKENS);
    const reason = await unsupportedReason(path, subject.create());
    if (reason !== undefined) skip(reason);
    const found = await logitsOf(path, subject.create(), "f32", GEMMA_TOKENS);
    const { largest, divergence } = distance(found, expected, spec.vocabulary);
    expect(divergence).toBeLessThan(LARGEST_DIVERGENCE);
    const isPlain = spec.types.every((type) => type === "F32");
    if (isPlain && !subject.promptsInHalves) expect(largest).toBeLessThan(LARGEST_GEMMA_DIFFERENCE);
  });

  it.each(subject.spread(subject.types, FEW_TYPES))("a model of $name", async ({ name }) => {
    const { path, expected } = await prepare(name, { ...BASE, seed: 6, architecture: "llama", types: [name] });
    const found = await logitsOf(path, subject.create(), "f16");
    expect(distance(found, expected, BASE.vocabulary).divergence).toBeLessThan(LARGEST_DIVERGENCE);
  });
});
