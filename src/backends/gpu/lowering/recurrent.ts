// The launches of recurrent layers: kernels/recurrent. Blocks of delta-net and ssm-scan have a slice of one sequence's state
// for all its tokens, so that the grid depends on the number of sequences and the bits of a token on its sequence alone; those
// of a delta net by groups of tokens also on where its run begins and on which of its states are kept.

import type {
  CausalConvOperation,
  DeltaNetOperation,
  PreviousRowOperation,
  SsmScanOperation,
  StateWriteOperation,
} from "../../../graph/operation.js";
import type { TensorDescriptor } from "../../../tensor/descriptor.js";
import type { Support } from "../../contract.js";
import type { Defines } from "../kernels/kernel-source.js";
import { type LoweringContext, rowsOf, type ValuePlace } from "./context.js";
import { isAligned } from "./inputs.js";
import { type Grid, type LaunchSize, type LaunchSpec, onlyIf } from "./launch.js";
import { type SomeOperationLowerings, supportsFloats, supportsPlain } from "./operation-lowering.js";
import { quadGrid } from "./rows.js";

/** Threads of recurrent/conv.hip, and what each has: the columns of a token, or in long runs those of several tokens. */
const CONV_THREADS = 256;
const CONV_FORMS = [
  { columns: 1, tokens: 1 },
  { columns: 4, tokens: 8 },
] as const;
/** Taps of a convolution whose inputs stay in a thread's registers, and those of several tokens and columns. */
const MAX_TAPS = 16;
const MAX_TILE_TAPS = 4;
/** Columns that a block holds, of narrow matrices and of others. */
const NARROW_SLICE = 16;
const SLICE = 32;
/** Lines of a column that stay in the registers of the lanes that hold it. */
const MAX_LINES = 512;
/** Tokens that recurrent/run.h has in shared memory at a time, by the lines of a column: twice as many fit 48 KiB. */
const CHUNKS = [
  { lines: 128, tokens: 16 },
  { lines: 256, tokens: 8 },
  { lines: MAX_LINES, tokens: 4 },
];

/** Runs from here on are long: the tokens of their groups do not wait for each other (recurrent/delta-groups.h). */
const MIN_LONG_RUN = 32;
/** More tokens than any run has. */
const MAX_RUN = 2 ** 31 - 1;
/** Head widths, and lanes of a column, of the delta net's kernel for long runs. */
const GROUP_WIDTHS: ReadonlySet<number> = new Set([64, 128]);
const GROUP_LANES = 16;

function lowerConv(context: LoweringContext, operation: CausalConvOperation): LaunchSpec {
  const { state, weight, bias, activation } = operation;
  const [input, out] = [context.matrix(operation.input), context.matrix(operation.out)];
  const defines = {
    TAPS: context.options.weights[weight].shape[0],
    WEIGHT_TYPE: context.typeOf(weight),
    BIAS_TYPE: bias === undefined ? -1 : context.typeOf(bias),
    SILU: activation === "silu" ? 1 : 0,
  };
  const takesTiles = isAligned(input) && isAligned(out) && out.width % 4 === 0 && defines.TAPS <= MAX_TILE_TAPS;
  const forms = takesTiles ? CONV_FORMS : CONV_FORMS.slice(0, 1);
  const choose = ({ longestRun }: LaunchSize): number => (takesTiles && longestRun >= MIN_LONG_RUN ? 1 : 0);
  return {
    label: "causal convolution",
    file: "recurrent/conv",
    variants: forms.map(({ columns, tokens }) => ({
      kernel: "causal_conv",
      defines: { ...defines, VECTOR: columns, TILE: tokens },
    })),
    choose,
    arguments: {
      ...context.stateArguments(state),
      sequences: context.stepField("sequences"),
      input: input.place,
      weight: context.weight(weight),
      bias: context.weight(bias),
      out: out.place,
      width: out.width,
      input_stride: input.stride,
      out_stride: out.stride,
    },
    grid: (size) => {
      const { columns, tokens } = forms[choose(size)];
      return [Math.ceil(out.width / (CONV_THREADS * columns)), Math.ceil(rowsOf(size, out.rows) / tokens), 1];
    },
  };
}

function supportsConv({ bias }: CausalConvOperation, weights: readonly TensorDescriptor[]): Support {
  const [taps] = weights[0].shape;
  if (taps > MAX_TAPS)
    return { reason: `convolutions on the GPU have at most ${MAX_TAPS} taps, and this one has ${taps}` };
  return supportsPlain("a convolution", bias === undefined ? [weights[0]] : weights);
}

/** Token by token, and long runs by groups of tokens unless the bits of a token must not depend on where its run begins. */
function lowerDeltaNet(context: LoweringContext, operation: DeltaNetOperation): readonly LaunchSpec[] {
  const { keyHeads, valueHeads, headWidth, keyHeadOrder, epsilon } = operation;
  const [alpha, beta] = [context.matrix(operation.alpha), context.matrix(operation.beta)];
  const byToken = scanLaunch(
    context,
    operation,
    {
      file: "recurrent/delta-net",
      kernel: "delta_net",
      defines: {
        HEAD_WIDTH: headWidth,
        KEY_HEADS: keyHeads,
        VALUE_HEADS: valueHeads,
        GROUPED: keyHeadOrder === "grouped" ? 1 : 0,
      },
      heads: valueHeads,
      lines: headWidth,
      columns: headWidth,
    },
    {
      ...gateArguments(alpha, beta),
      decay: context.weight(operation.decay),
      bias: context.weight(operation.bias),
      short_run: MAX_RUN,
      epsilon,
      scale: 1 / Math.sqrt(headWidth),
    },
  );
  const { CHUNK, ...defines } = byToken.variants[0].defines;
  const { deterministic } = context.options;
  // Token by token is the next variant, if the groups are wrong on a card.
  if (deterministic || context.choices.isGivenUp(byToken.file)) return [byToken];
  if (CHUNK === undefined || defines["ALIGNED"] !== 1 || !GROUP_WIDTHS.has(headWidth)) return [byToken];
  const hasLong = ({ longestRun }: LaunchSize): boolean => longestRun >= MIN_LONG_RUN;
  const hasShort = ({ longestRun, sequences, tokens }: LaunchSize): boolean =>
    longestRun < MIN_LONG_RUN || sequences * longestRun !== tokens;
  const sized = (size: LaunchSize): { readonly short_run: number } => ({
    short_run: hasLong(size) ? MIN_LONG_RUN - 1 : MAX_RUN,
  });
  const byGroup: LaunchSpec = {
    ...byToken,
    label: "delta-net of long runs",
    variants: [{ kernel: "delta_net_groups", defines: { ...defines, TOKEN_GROUPS: 1, COLUMN_LANES: GROUP_LANES } }],
    choose: () => 0,
    sized,
  };
  return [onlyIf(hasShort, { ...byToken, sized }), onlyIf(hasLong, byGroup)];
}

function lowerScan(context: LoweringContext, operation: SsmScanOperation): LaunchSpec {
  const { heads, headWidth, groups, stateWidth } = operation;
  return scanLaunch(
    context,
    operation,
    {
      file: "recurrent/scan",
      kernel: "ssm_scan",
      defines: { STATE_WIDTH: stateWidth, HEAD_WIDTH: headWidth, HEADS: heads, GROUPS: groups },
      heads,
      lines: stateWidth,
      columns: headWidth,
    },
    {
      ...gateArguments(context.matrix(operation.step), undefined),
      decay: context.weight(operation.decay),
      bias: context.weight(operation.bias),
      skip: context.weight(operation.skip),
    },
  );
}

/** The two values of which each token and head has a number for its gates. */
function gateArguments(left: ValuePlace, right: ValuePlace | undefined): LaunchSpec["arguments"] {
  return { left: left.place, left_stride: left.stride, right: right?.place ?? 0, right_stride: right?.stride ?? 0 };
}

interface ScanKernel {
  readonly file: string;
  readonly kernel: string;
  readonly defines: Defines;
  readonly heads: number;
  readonly lines: number;
  readonly columns: number;
}

/** A launch of recurrent/run.h. */
function scanLaunch(
  context: LoweringContext,
  operation: DeltaNetOperation | SsmScanOperation,
  { file, kernel, defines, heads, lines, columns }: ScanKernel,
  others: LaunchSpec["arguments"],
): LaunchSpec {
  const [input, out] = [context.matrix(operation.input), context.matrix(operation.out)];
  const aligned = isAligned(input) && lines % 4 === 0 && columns % 4 === 0 ? 1 : 0;
  const slice = columns > NARROW_SLICE ? SLICE : NARROW_SLICE;
  const blocks = heads * Math.ceil(columns / slice);
  return {
    label: operation.kind,
    file,
    variants: [1, chunkOf(lines)].map((tokens) => ({
      kernel,
      defines: { ...defines, SLICE: slice, CHUNK: tokens, ALIGNED: aligned },
    })),
    choose: ({ longestRun }) => (longestRun === 1 ? 0 : 1),
    arguments: {
      ...context.stateArguments(operation.state),
      input: input.place,
      input_stride: input.stride,
      out: out.place,
      out_stride: out.stride,
      ...others,
    },
    grid: sequenceGrid(blocks),
  };
}

function lowerPreviousRow(context: LoweringContext, operation: PreviousRowOperation): LaunchSpec {
  const input = operation.input === undefined ? undefined : context.matrix(operation.input);
  const out = context.matrix(operation.out);
  return {
    label: "previous rows",
    file: "recurrent/rows",
    variants: [{ kernel: "previous_rows", defines: {} }],
    arguments: {
      ...context.stateArguments(operation.state),
      sequences: context.stepField("sequences"),
      input: input?.place ?? 0,
      out: out.place,
      width: out.width,
      input_stride: input?.stride ?? 0,
      out_stride: out.stride,
    },
    grid: quadGrid(out),
  };
}

function lowerStateWrite(context: LoweringContext, operation: StateWriteOperation): LaunchSpec {
  const input = context.matrix(operation.input);
  return {
    label: "state of a row",
    file: "recurrent/rows",
    variants: [{ kernel: "state_rows", defines: {} }],
    arguments: {
      ...context.stateArguments(operation.state),
      input: input.place,
      width: input.width,
      input_stride: input.stride,
    },
    grid: quadGrid(input),
  };
}

/** A graph serves steps of any number of sequences, of which each has a token. */
function sequenceGrid(blocks: number): (size: LaunchSize) => Grid {
  return ({ sequences, tokens }) => [blocks, sequences === 0 ? tokens : sequences, 1];
}

function chunkOf(lines: number): number {
  return CHUNKS.find((chunk) => lines <= chunk.lines)?.tokens ?? 1;
}

function supportsLines(lines: number): Support {
  return (
    lines <= MAX_LINES || {
      reason: `recurrent layers on the GPU have states of up to ${MAX_LINES} columns, and these have ${lines}`,
    }
  );
}

/** Support for the vectors of a recurrent layer, which kernels read as f32 only. */
function supportsVectors(weights: readonly TensorDescriptor[], otherwise: Support): Support {
  return weights.reduce<Support>(
    (support, weight) => supportsFloats("gates of recurrent layers", weight, support),
    otherwise,
  );
}

/** The entries of operations with recurrent states. */
export const RECURRENT_LOWERINGS = {
  "causal-conv": { supports: supportsConv, lower: (context, operation) => [lowerConv(context, operation)] },
  "delta-net": {
    supports: ({ headWidth }, weights) => supportsVectors(weights, supportsLines(headWidth)),
    lower: (context, operation) => lowerDeltaNet(context, operation),
  },
  "ssm-scan": {
    supports: ({ stateWidth }, weights) => supportsVectors(weights, supportsLines(stateWidth)),
    lower: (context, operation) => [lowerScan(context, operation)],
  },
  "previous-row": { lower: (context, operation) => [lowerPreviousRow(context, operation)] },
  "state-write": { lower: (context, operation) => [lowerStateWrite(context, operation)] },
} satisfies SomeOperationLowerings;
