// A model shape for the tests of `synth` and `bench`: small enough for the reference backend, and wide enough for the
// widest block, which is 256.

import type { ModelShape } from "../../src/cli/synth/shape.js";

export const SMALL_SHAPE: ModelShape = {
  title: "small",
  architecture: "llama",
  layers: 2,
  width: 256,
  heads: 4,
  kvHeads: 2,
  feedForward: 512,
  context: 128,
  normEpsilon: 1e-5,
  ropeBase: 10_000,
  tied: false,
  vocabulary: { kind: "spm", size: 1024, control: { 1: "<s>", 2: "</s>" }, bos: 1, eos: 2, addsBos: true },
};
