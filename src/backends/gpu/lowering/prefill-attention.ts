// Launches of prefill attention (attention/flash.hip, wide-flash.hip, wide-tiled.hip, tiled.hip): a block has a tile of
// neighbouring tokens of one sequence. Steps with few tiles for a device and steps with many have free parameters of their own.

import type { AttentionOperation } from "../../../graph/operation.js";
import {
  flashRequest,
  type FlashParameters,
  flashShape,
  isFlashShape,
  usualFlashParameters,
} from "../memory/flash-attention.js";
import { TILE_TOKENS } from "../memory/kv-layout.js";
import { isTiledShape, type TiledParameters, tiledShape, usualTiledParameters } from "../memory/tiled-attention.js";
import { transposedShape } from "../memory/transposed-attention.js";
import { wideTiledShape } from "../memory/wide-attention.js";
import { wideFlashShape } from "../memory/wide-flash-attention.js";
import type { Defines } from "../kernels/kernel-source.js";
import { writtenOutput } from "./attention-output.js";
import { attentionDefines, attentionKey } from "./attributes.js";
import type { LoweringContext } from "./context.js";
import type { HandedInput } from "./inputs.js";
import type { TunedVariant } from "./kernel-choices.js";
import type { FamilyName, ParametersOf } from "./kernel-families.js";
import type { LaunchSize, LaunchSpec } from "./launch.js";
import { cacheDefines, layerArguments, tableArguments } from "./rope.js";

/** Fewer tokens of a sequence than this would leave most of a tile empty. */
const MIN_TILED_RUN = 9;

/** Whether a step of this size takes tiled attention, if the program supports it. */
export function isTiled(size: LaunchSize): boolean {
  return size.longestRun >= MIN_TILED_RUN;
}

/** How blocks work. */
interface PrefillShape {
  readonly defines: Defines;
  /** Blocks for each tile of tokens. */
  readonly blocks: number;
  readonly sharedBytes: number;
}

interface PrefillKernel {
  readonly file: string;
  readonly kernel: string;
  readonly usual: PrefillShape;
  /** The parameters of steps whose tiles are few or many, where there are free ones, and how blocks then work. */
  choose?(
    tiles: (typeof TILES)[number],
    definesFor: (shape: PrefillShape) => Defines,
  ): { readonly tuned: TunedVariant; readonly shape: PrefillShape };
}

/** Whether the usual blocks of a step's tiles are fewer than a device has multiprocessors, or not. */
const TILES = ["few", "many"] as const;

/** Whether prefill attention is tiled; otherwise split attention handles any number of tokens. */
export function takesTiles(context: LoweringContext, operation: AttentionOperation): boolean {
  return prefillKernel(context, operation) !== undefined;
}

function prefillKernel(context: LoweringContext, operation: AttentionOperation): PrefillKernel | undefined {
  const { device, kind, limits } = context.options;
  const { kvCacheType: type } = limits;
  const { heads } = operation;
  const flash = flashKernel(context, operation);
  if (flash !== undefined) return flash;
  const wideFlash = wideFlashShape(type, operation, limits.blockTokens, device);
  if (wideFlash !== undefined && !context.choices.isGivenUp(WIDE_FLASH.file))
    return { ...WIDE_FLASH, usual: wideFlash };
  const wide = wideTiledShape(type, operation, device);
  if (wide !== undefined) {
    const usual = { ...wide, blocks: (heads * TILE_TOKENS) / wide.rows };
    return { file: "attention/wide-tiled", kernel: "attention_wide_tiled", usual };
  }
  const transposed = kind === "hip" ? transposedShape(type, operation, device) : undefined;
  if (transposed === undefined) return tiledKernel(context, operation);
  const { blocksPerTile, ...rest } = transposed;
  return { ...TILED, usual: { ...rest, blocks: heads * blocksPerTile } };
}

/** If it is wrong on a card, wide-tiled.hip takes its place. */
const WIDE_FLASH = { file: "attention/wide-flash", kernel: "attention_wide_flash" } as const;
const TILED = { file: "attention/tiled", kernel: "attention_tiled" } as const;

function flashKernel(context: LoweringContext, operation: AttentionOperation): PrefillKernel | undefined {
  const { device, limits } = context.options;
  const request = flashRequest(limits.kvCacheType, operation, limits.blockTokens, device);
  if (request === undefined) return undefined;
  const usual = usualFlashParameters(request);
  return {
    file: "attention/flash",
    kernel: "attention_flash",
    usual: flashShape(request, usual),
    choose: (tiles, definesFor) =>
      chosen<FlashParameters & ParametersOf<"flash-attention">>(context, {
        family: "flash-attention",
        key: `${attentionKey(context, operation)} ${tiles}`,
        file: "attention/flash",
        usual,
        isValid: (parameters) => isFlashShape(request, parameters),
        shapeOf: (parameters) => flashShape(request, parameters),
        definesFor,
      }),
  };
}

function tiledKernel(context: LoweringContext, operation: AttentionOperation): PrefillKernel | undefined {
  const { device, limits } = context.options;
  const usual = usualTiledParameters(limits.kvCacheType, operation, device.sharedBytes);
  if (usual === undefined) return undefined;
  const shapeOf = (parameters: TiledParameters): PrefillShape => {
    const { blocksPerTile, ...rest } = tiledShape(operation, parameters);
    return { ...rest, blocks: operation.heads * blocksPerTile };
  };
  return {
    ...TILED,
    usual: shapeOf(usual),
    choose: (tiles, definesFor) =>
      chosen<TiledParameters & ParametersOf<"tiled-attention">>(context, {
        family: "tiled-attention",
        key: `${attentionKey(context, operation)} ${tiles}`,
        file: TILED.file,
        usual,
        isValid: (parameters) => isTiledShape(operation, parameters, device.sharedBytes),
        shapeOf,
        definesFor,
      }),
  };
}

interface Choice<Parameters> {
  readonly family: FamilyName;
  readonly key: string;
  readonly file: string;
  readonly usual: Parameters;
  isValid(parameters: Parameters): boolean;
  shapeOf(parameters: Parameters): PrefillShape;
  definesFor(shape: PrefillShape): Defines;
}

function chosen<Parameters extends Readonly<Record<string, number>>>(
  { choices }: LoweringContext,
  { family, key, file, usual, isValid, shapeOf, definesFor }: Choice<Parameters>,
): { readonly tuned: TunedVariant; readonly shape: PrefillShape } {
  const tuned = choices.variant<Parameters>({
    family,
    key,
    usual,
    isValid,
    moduleOf: (parameters) => ({ file, defines: definesFor(shapeOf(parameters)) }),
  });
  return { tuned, shape: shapeOf(tuned.parameters) };
}

export function tiledAttention(
  context: LoweringContext,
  operation: AttentionOperation,
  handed: HandedInput | undefined,
): LaunchSpec {
  const [query, out] = [context.matrix(operation.query), context.matrix(operation.out)];
  const { heads, kvHeads, scale, sinks } = operation;
  const found = prefillKernel(context, operation);
  if (found === undefined) throw new TypeError("tiled attention does not fit this device");
  const { file, kernel, usual, choose } = found;
  const { multiprocessors } = context.options.device;
  const written = writtenOutput(out, handed);
  const { forms } = written;
  const definesFor = ({ defines }: PrefillShape, form: Defines): Defines => ({
    ...cacheDefines(context, operation),
    ...attentionDefines(operation),
    ...defines,
    GROUP: heads / kvHeads,
    ...form,
  });
  const cuts = TILES.map((tiles) => choose?.(tiles, (shape) => definesFor(shape, forms[0])));
  const cutOf = ({ tiles }: LaunchSize): number => (tiles * usual.blocks < multiprocessors ? 0 : 1);
  return {
    label: "attention, tiled",
    file,
    variants: cuts.flatMap((cut) =>
      forms.map((form) => {
        const { shape, tuned } = cut ?? { shape: usual, tuned: undefined };
        return {
          kernel,
          defines: definesFor(shape, form),
          sharedBytes: shape.sharedBytes,
          ...(tuned === undefined ? {} : { tuned }),
        };
      }),
    ),
    choose: (size) => cutOf(size) * forms.length + written.formOf(size),
    arguments: {
      tiles: context.stepField("tiles"),
      positions: context.stepField("positions"),
      ...tableArguments(context, operation.layer),
      query: query.place,
      query_stride: query.stride,
      heads,
      kv_heads: kvHeads,
      ...layerArguments(context, operation.layer),
      scale,
      sinks: context.weight(sinks),
      ...written.values,
    },
    recut: (choices) => tiledAttention(context.withChoices(choices), operation, handed),
    results: written.results,
    grid: (size) => [isTiled(size) ? (cuts[cutOf(size)]?.shape ?? usual).blocks : 0, size.tiles, 1],
  };
}
