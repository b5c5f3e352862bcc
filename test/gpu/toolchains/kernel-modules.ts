// Every kernel module that the backend would ask for on a card: the representative models lowered for that card, at every
// size of step that takes another way, plus what uploads and measurements ask for. Nothing is listed by hand, so a kernel
// with new defines is compiled as soon as something launches it.

import type { ProgramLimits } from "../../../src/backends/contract.js";
import type { Defines } from "../../../src/backends/gpu/kernels/kernel-source.js";
import { TILE_TOKENS, supportsGpuKvCache } from "../../../src/backends/gpu/memory/kv-layout.js";
import {
  isNeeded,
  type LaunchSize,
  type LaunchSpec,
  type LaunchVariant,
} from "../../../src/backends/gpu/lowering/launch.js";
import type { LoweringContext } from "../../../src/backends/gpu/lowering/context.js";
import { createContext, lowerStep } from "../../../src/backends/gpu/lowering/lowering.js";
import { isLaunch } from "../../../src/backends/gpu/lowering/step-item.js";
import { batchClass } from "../../../src/backends/gpu/lowering/matmul-selection.js";
import { exactSize } from "../../../src/backends/gpu/lowering/step-bucket.js";
import { hasDeviceLayout, weightLayout } from "../../../src/backends/gpu/memory/weight-layout.js";
import type { RepresentativeModel } from "./representative-models.js";
import type { Target } from "./targets.js";

export interface KernelModule {
  /** kernels/<file>.hip */
  readonly file: string;
  readonly defines: Defines;
  /** The kernels of it that are launched, with the dynamic shared memory that each is given. */
  readonly launched: ReadonlyMap<string, number>;
  /** The first model that asks for it. */
  readonly askedBy: string;
}

/** Of the largest class of steps; attention takes them in one turn at this context, and further turns have the same kernels. */
const MAX_TOKENS = 512;
const MAX_OUTPUTS = 128;
const CONTEXT_TOKENS = 1024;
/** Deep enough for the form of decode attention that long sequences take, for heads of any width. */
const DEEP_TOKENS = 16_384;
const BLOCK_TOKENS = 32;
const KV_CACHE_TYPES = ["f16", "f32", "q8_0"] as const;

/** Both sides of every border that lowering knows: token buckets, tiles, classes of rows. */
const TOKEN_COUNTS = [1, 2, 3, 5, 8, 9, 16, 17, 32, 33, 64, 65, 383, 384, MAX_TOKENS] as const;

/** Prompts that want their last row or many, and batches that want every row. */
function stepSizes(): readonly LaunchSize[] {
  const size = (tokens: number, outputs: number, longestRun: number): LaunchSize =>
    exactSize({
      tokens,
      outputs,
      scored: outputs,
      longestRun,
      longest: CONTEXT_TOKENS,
      sequences: tokens / longestRun,
      tiles: Math.ceil(longestRun / TILE_TOKENS),
    });
  return TOKEN_COUNTS.flatMap((tokens) => [
    size(tokens, 1, tokens),
    size(tokens, Math.min(tokens, MAX_OUTPUTS), tokens),
    size(tokens, Math.min(tokens, MAX_OUTPUTS), 1),
  ]);
}

/** One sequence that decodes late in a long context. */
function deepSize(): LaunchSize {
  return exactSize({
    tokens: 1,
    outputs: 1,
    scored: 1,
    longestRun: 1,
    longest: DEEP_TOKENS,
    sequences: 1,
    tiles: 1,
  });
}

class ModuleList {
  readonly #modules = new Map<string, KernelModule & { readonly launched: Map<string, number> }>();
  /** Most launches are asked for again and again; names take longer to make than all else here. */
  readonly #known = new Set<string>();

  /** `askedBy` names whoever comes first. */
  add(file: string, { kernel, defines, sharedBytes = 0 }: LaunchVariant, askedBy: string): void {
    const written = `${file} ${kernel} ${sharedBytes} ${JSON.stringify(defines)}`;
    if (this.#known.has(written)) return;
    this.#known.add(written);
    const name = moduleName({ file, defines });
    const module = this.#modules.get(name) ?? { file, defines, launched: new Map<string, number>(), askedBy };
    module.launched.set(kernel, Math.max(sharedBytes, module.launched.get(kernel) ?? 0));
    this.#modules.set(name, module);
  }

  all(): readonly KernelModule[] {
    return [...this.#modules.values()];
  }
}

/** File and defines, for people and as a key. */
export function moduleName({ file, defines }: Pick<KernelModule, "file" | "defines">): string {
  return [
    file,
    ...Object.keys(defines)
      .toSorted()
      .map((name) => `${name}=${defines[name]}`),
  ].join(" ");
}

export function kernelModules(models: readonly RepresentativeModel[], target: Target): readonly KernelModule[] {
  const list = new ModuleList();
  const sizes = stepSizes();
  for (const kernel of ["compare_words", "check_matmul"])
    list.add("rows/check", { kernel, defines: {} }, "the checks of graphs and libraries");
  list.add("rows/bandwidth", { kernel: "read_all", defines: {} }, "the measurement of bandwidth");
  for (const model of models) {
    addUploads(list, model);
    for (const kvCacheType of KV_CACHE_TYPES) {
      if (
        supportsGpuKvCache({
          ...model.fused.program.kv,
          type: kvCacheType,
          blockTokens: BLOCK_TOKENS,
          blocks: CONTEXT_TOKENS / BLOCK_TOKENS,
        }) !== true
      )
        continue;
      const limits = {
        maxTokens: MAX_TOKENS,
        maxOutputs: MAX_OUTPUTS,
        contextTokens: CONTEXT_TOKENS,
        blockTokens: BLOCK_TOKENS,
        kvCacheType,
      };
      // Deterministic steps differ in nothing that depends on how keys are stored.
      for (const deterministic of kvCacheType === "f16" ? [false, true] : [false])
        addSteps(list, model, contextOf(model, target, limits, deterministic), sizes);
      const deepLimits = { ...limits, contextTokens: DEEP_TOKENS };
      if (kvCacheType === "f16") addSteps(list, model, contextOf(model, target, deepLimits, false), [deepSize()]);
    }
  }
  return list.all();
}

function contextOf(
  { fused, weights }: RepresentativeModel,
  { device, kind }: Target,
  limits: ProgramLimits,
  deterministic: boolean,
): LoweringContext {
  return createContext({ fused, weights, limits, device, kind, deterministic });
}

/** Rows of types whose layout is not the file's own. */
function addUploads(list: ModuleList, { weights, name }: RepresentativeModel): void {
  for (const { layout, shape, elements } of weights) {
    if (!hasDeviceLayout(layout.name)) continue;
    const { repacked, typeId } = weightLayout(layout.name, shape[0], elements / shape[0]);
    if (repacked) list.add("weights/repack", { kernel: "repack_rows", defines: { TYPE0: typeId } }, name);
  }
}

function addSteps(
  list: ModuleList,
  { name }: RepresentativeModel,
  context: LoweringContext,
  sizes: readonly LaunchSize[],
): void {
  const { deterministic } = context.options;
  const lowered = new Map<string, readonly LaunchSpec[]>();
  for (const size of sizes) {
    const [tokens, outputs] = deterministic
      ? (["small", "small"] as const)
      : [batchClass(size.tokens), batchClass(size.outputs)];
    for (const blas of tokens === "huge" ? [false, true] : [false]) {
      const key = `${tokens} ${outputs} ${blas}`;
      const launches = lowered.get(key) ?? lowerStep(context, { tokens, outputs, blas }).filter(isLaunch);
      lowered.set(key, launches);
      for (const launch of launches.filter((candidate) => isNeeded(candidate, size))) {
        list.add(launch.file, launch.variants[launch.choose?.(size) ?? 0], name);
      }
    }
  }
}
