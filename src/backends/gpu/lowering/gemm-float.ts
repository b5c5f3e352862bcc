// Launches of matmul/gemm-float.hip and matmul/dot-float.hip: matmuls of many tokens with plain weights whose results have
// to be as exact as f32. Which kernel and which tile depends on the rows of weights alone, so that a batch changes no bit.

import type { Defines } from "../kernels/kernel-source.js";
import { type LoweringContext, rowsOf } from "./context.js";
import { isAligned, type MatmulInput } from "./inputs.js";
import type { LaunchSpec } from "./launch.js";
import { launchable, type Matmul, matmulDefines } from "./matmul.js";

/** Rows up to which a matmul is a dot product for each of them, and the tokens of a block of that kernel. */
const MAX_DOT_ROWS = 4;
const DOT_TOKENS = 16;
/** Matrices of one input that are rows of the same tiles. */
const MAX_JOINED = 2;
/** Tiles by the rows up to which they are taken: a block for every multiprocessor with 4,096 tokens. */
const TILES = [
  { most: 32, tokens: 32, rows: 32 },
  { most: 64, tokens: 32, rows: 64 },
  { most: Infinity, tokens: 64, rows: 64 },
] as const;

type FloatInput = Extract<MatmulInput, { form: "floats" }>;

/** Matmuls of one input: those of few rows alone, the others joined if their weights have one type. */
export function gemmFloatLaunches(
  context: LoweringContext,
  input: FloatInput,
  matmuls: readonly Matmul[],
): readonly LaunchSpec[] {
  const few = matmuls.filter(({ outputs }) => outputs <= MAX_DOT_ROWS);
  const many = matmuls.filter(({ outputs }) => outputs > MAX_DOT_ROWS);
  const joined = launchable(many, MAX_JOINED).flatMap((together) =>
    together.every(({ type }) => type === together[0].type) ? [together] : together.map((matmul) => [matmul]),
  );
  return [
    ...joined.map((together) => tileLaunch(context, input, together)),
    ...few.map((matmul) => dotLaunch(context, input, matmul)),
  ];
}

function tileLaunch(context: LoweringContext, input: FloatInput, matmuls: readonly Matmul[]): LaunchSpec {
  const [first, second = undefined] = matmuls;
  const outputs = matmuls.reduce((sum, matmul) => sum + matmul.outputs, 0);
  const tile = TILES.find(({ most }) => outputs <= most) ?? TILES[TILES.length - 1];
  return {
    label: "gemm of floats",
    file: "matmul/gemm-float",
    variants: [
      {
        kernel: "gemm_float",
        defines: {
          ...commonDefines(input, matmuls),
          MATMULS: matmuls.length,
          TILE_TOKENS: tile.tokens,
          TILE_ROWS: tile.rows,
        },
      },
    ],
    arguments: {
      ...commonArguments(context, input, first),
      weights0: first.weight,
      weights1: second?.weight ?? 0,
      bias0: first.bias,
      bias1: second?.bias ?? 0,
      factor0: first.factor,
      factor1: second?.factor ?? 0,
      out0: first.out.place,
      out1: second?.out.place ?? 0,
      rows0: first.outputs,
      rows1: second?.outputs ?? 0,
      stride0: first.out.stride,
      stride1: second?.out.stride ?? 0,
    },
    grid: (size) => [Math.ceil(outputs / tile.rows), Math.ceil(rowsOf(size, first.rows) / tile.tokens), 1],
  };
}

function dotLaunch(context: LoweringContext, input: FloatInput, matmul: Matmul): LaunchSpec {
  return {
    label: "dots of floats",
    file: "matmul/dot-float",
    variants: [{ kernel: "dot_float", defines: { ...commonDefines(input, [matmul]), ROWS: matmul.outputs } }],
    arguments: {
      ...commonArguments(context, input, matmul),
      weights: matmul.weight,
      bias: matmul.bias,
      factor: matmul.factor,
      out: matmul.out.place,
      stride: matmul.out.stride,
    },
    grid: (size) => [Math.ceil(rowsOf(size, matmul.rows) / DOT_TOKENS), 1, 1],
  };
}

function commonDefines(input: FloatInput, matmuls: readonly Matmul[]): Defines {
  const [{ type, width }] = matmuls;
  const biasType = matmuls.find((matmul) => matmul.biasType !== undefined)?.biasType ?? 0;
  const isWhole = width % 4 === 0 && isAligned({ place: input.input, stride: input.stride });
  return { TYPE0: type, BIAS_TYPE: biasType, ALIGNED: isWhole ? 1 : 0, ...matmulDefines(matmuls, undefined) };
}

function commonArguments(
  context: LoweringContext,
  { input, stride }: FloatInput,
  { rows, width, residual }: Matmul,
): LaunchSpec["arguments"] {
  return {
    inputs: input,
    row_count: context.rowCount(rows),
    input_stride: stride,
    width,
    residual: residual?.place ?? 0,
    residual_stride: residual?.stride ?? 0,
  };
}
