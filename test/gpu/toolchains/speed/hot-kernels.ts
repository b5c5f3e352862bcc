// The kernels that take most of a step's time, lowered for a card as the backend would: what decoding streams of
// Llama-3-8B and of a mixture of experts, and what prompts multiply.

import type { ProgramLimits } from "../../../../src/backends/contract.js";
import { isNeeded, type LaunchSize, type LaunchSpec } from "../../../../src/backends/gpu/lowering/launch.js";
import { createContext, lowerStep } from "../../../../src/backends/gpu/lowering/lowering.js";
import { batchClass } from "../../../../src/backends/gpu/lowering/matmul-selection.js";
import { exactSize } from "../../../../src/backends/gpu/lowering/step-bucket.js";
import { isLaunch } from "../../../../src/backends/gpu/lowering/step-item.js";
import type { Defines } from "../../../../src/backends/gpu/kernels/kernel-source.js";
import { TILE_TOKENS } from "../../../../src/backends/gpu/memory/kv-layout.js";
import { synthPlan } from "../../../../src/cli/synth/model-plan.js";
import { SHAPES } from "../../../../src/cli/synth/shape.js";
import type { MixName } from "../../../../src/cli/synth/type-mix.js";
import { modelOf, type RepresentativeModel } from "../representative-models.js";
import type { Target } from "../targets.js";

/** What a kernel spends its time on. */
export type HotKind = "stream" | "attention" | "matrix";

export interface HotKernel {
  readonly label: string;
  readonly kind: HotKind;
  readonly file: string;
  readonly kernel: string;
  readonly defines: Defines;
  readonly dynamicBytes: number;
  readonly blocks: number;
  /** Of streamed weights: bytes for each of them, by the worst type of the launch; 0 where other things are streamed. */
  readonly bytesPerWeight: number;
  /** Of streamed weights: those of the whole launch. */
  readonly streamedBytes: number;
}

export interface HotStep {
  readonly model: keyof typeof SHAPES;
  readonly mix: MixName;
  readonly tokens: number;
  readonly longestRun: number;
  readonly longest: number;
  readonly files: Readonly<Record<string, HotKind>>;
}

const STREAMS = { "matmul/gemv": "stream", "matmul/gemv-float": "stream" } as const;
const GEMMS = { "matmul/gemm": "matrix", "matmul/int8-gemm": "matrix" } as const;
const EXPERTS = { "matmul/grouped-gemv": "stream", "matmul/expert-sum": "stream" } as const;
const DEEP_CONTEXT = 4096;
const SHORT_CONTEXT = 512;

const STEPS: readonly HotStep[] = [
  {
    model: "llama3-8b",
    mix: "Q4_K_M",
    tokens: 1,
    longestRun: 1,
    longest: DEEP_CONTEXT,
    files: { ...STREAMS, "attention/deep-decode": "attention" },
  },
  {
    model: "llama3-8b",
    mix: "Q4_K_M",
    tokens: 1,
    longestRun: 1,
    longest: SHORT_CONTEXT,
    files: { "attention/decode": "attention" },
  },
  { model: "llama3-8b", mix: "Q8_0", tokens: 1, longestRun: 1, longest: DEEP_CONTEXT, files: STREAMS },
  { model: "llama3-8b", mix: "F16", tokens: 1, longestRun: 1, longest: DEEP_CONTEXT, files: STREAMS },
  { model: "llama3-8b", mix: "Q4_K_M", tokens: 4, longestRun: 1, longest: SHORT_CONTEXT, files: STREAMS },
  {
    model: "qwen3-30b-a3b",
    mix: "Q4_K_M",
    tokens: 1,
    longestRun: 1,
    longest: SHORT_CONTEXT,
    files: EXPERTS,
  },
  {
    model: "llama3-8b",
    mix: "Q4_K_M",
    tokens: 16,
    longestRun: 1,
    longest: SHORT_CONTEXT,
    files: GEMMS,
  },
  {
    model: "llama3-8b",
    mix: "Q4_K_M",
    tokens: 64,
    longestRun: 64,
    longest: SHORT_CONTEXT,
    files: { ...GEMMS, "attention/tiled": "matrix" },
  },
  {
    model: "qwen3-30b-a3b",
    mix: "Q4_K_M",
    tokens: 64,
    longestRun: 64,
    longest: SHORT_CONTEXT,
    files: { "matmul/grouped-gemm": "matrix" },
  },
];

const LIMITS: ProgramLimits = {
  maxTokens: 512,
  maxOutputs: 128,
  contextTokens: 8192,
  blockTokens: 32,
  kvCacheType: "f16",
};
/** Bytes of a weight, by its type's number in the file. */
const WEIGHT_BYTES: ReadonlyMap<number, readonly [name: string, bytes: number]> = new Map([
  [0, ["F32", 4]],
  [1, ["F16", 2]],
  [8, ["Q8_0", 34 / 32]],
  [12, ["Q4_K", 148 / 256]],
  [14, ["Q6_K", 210 / 256]],
]);
const LAYERS = 8;
const FEW_WORDS = 300;

const models = new Map<string, RepresentativeModel>();

/** As published but for the words, which no kernel sees: the output matrix has all of its rows. */
function model(name: keyof typeof SHAPES, mix: MixName): RepresentativeModel {
  const known = models.get(`${name} ${mix}`);
  if (known !== undefined) return known;
  const shape = SHAPES[name];
  const wordless = { ...shape, layers: LAYERS, vocabulary: { ...SHAPES.tinyllama.vocabulary, size: FEW_WORDS } };
  const sized = (dimension: number): number => (dimension === FEW_WORDS ? shape.vocabulary.size : dimension);
  const { metadata, tensors } = synthPlan(name, wordless, { mix, seed: 1 });
  const made = modelOf(name, {
    metadata,
    tensors: tensors.map((tensor) => ({ ...tensor, shape: tensor.shape.map(sized) })),
  });
  models.set(`${name} ${mix}`, made);
  return made;
}

export function hotKernels(target: Target, steps: readonly HotStep[] = STEPS): readonly HotKernel[] {
  const kernels = new Map<string, HotKernel>();
  for (const step of steps) for (const kernel of kernelsOf(step, target)) kernels.set(kernel.label, kernel);
  return [...kernels.values()];
}

function kernelsOf(step: HotStep, { device, kind }: Target): readonly HotKernel[] {
  const { fused, weights } = model(step.model, step.mix);
  const context = createContext({ fused, weights, limits: LIMITS, device, kind, deterministic: false });
  const { tokens, longestRun, longest } = step;
  const sequences = tokens / longestRun;
  const outputs = sequences;
  const size = exactSize({
    tokens,
    outputs,
    scored: outputs,
    longestRun,
    longest,
    sequences,
    tiles: sequences * Math.ceil(longestRun / TILE_TOKENS),
  });
  const classes = { tokens: batchClass(tokens), outputs: batchClass(outputs), blas: false };
  return lowerStep(context, classes)
    .filter(isLaunch)
    .filter((launch) => step.files[launch.file] !== undefined && isNeeded(launch, size))
    .map((launch) => hotKernel(step, launch, size));
}

function hotKernel(step: HotStep, launch: LaunchSpec, size: LaunchSize): HotKernel {
  const variant = launch.variants[launch.choose?.(size) ?? 0];
  const types = typesOf(variant.defines);
  const [x, y, z] = launch.grid(size);
  return {
    label: labelOf(step, launch, variant.defines, types),
    kind: step.files[launch.file],
    file: launch.file,
    kernel: variant.kernel,
    defines: variant.defines,
    dynamicBytes: variant.sharedBytes ?? 0,
    blocks: x * y * z,
    bytesPerWeight: Math.min(...types.map((type) => WEIGHT_BYTES.get(type)?.[1] ?? Infinity)),
    streamedBytes: streamedBytes(launch.arguments, variant.defines),
  };
}

/** Matrices of dense networks, or those of the experts in use. */
function streamedBytes(given: LaunchSpec["arguments"], defines: Defines): number {
  const width = Number(given["width"] ?? defines["WIDTH"]);
  const rowsOf = (index: number): number =>
    Number(given[`rows${index}`] ?? given[`matrix_rows${index}`] ?? given["rows"]) * Number(defines["USED"] ?? 1);
  const types = typesOf(defines);
  return types.reduce((sum, type, index) => sum + rowsOf(index) * width * (WEIGHT_BYTES.get(type)?.[1] ?? 0), 0);
}

function typesOf(defines: Defines): readonly number[] {
  return Object.entries(defines)
    .filter(([name]) => /^TYPE\d$/.test(name))
    .map(([, value]) => Number(value));
}

function labelOf(
  step: HotStep,
  { label, file, arguments: given }: LaunchSpec,
  defines: Defines,
  types: readonly number[],
): string {
  if (types.length === 0) return label;
  const names = [...new Set(types.map((type) => WEIGHT_BYTES.get(type)?.[0] ?? String(type)))].join("+");
  const many = step.tokens === 1 ? "" : `, ${step.tokens} tokens`;
  const bytes = file === "matmul/int8-gemm" && defines["GATED"] !== 1 ? ", int8 gemm" : "";
  return `${partOf(label, file, given, defines)} ${names}${bytes}${many}`;
}

/** Which matrix of the model a launch is of, by its size. */
function partOf(label: string, file: string, given: LaunchSpec["arguments"], defines: Defines): string {
  if (!/^matmul\/(int8-)?gem[mv]/.test(file) || defines["GATED"] === 1) return label;
  if (Number(defines["MATMULS"]) >= 2) return "Q/K/V";
  const [width, rows] = [Number(given["width"]), Number(given["rows0"])];
  if (rows > 2 * width) return "output";
  return width > rows ? "down" : "attention's output";
}
