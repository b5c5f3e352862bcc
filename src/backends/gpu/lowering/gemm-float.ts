// Launches of matmul/gemm-float.hip: matmuls of many tokens with plain weights whose results have to be as exact as f32.

import { type LoweringContext, rowsOf } from "./context.js";
import type { MatmulInput } from "./inputs.js";
import type { LaunchSpec } from "./launch.js";
import { type Matmul, matmulDefines } from "./matmul.js";

/** Of one block. */
const TILE_TOKENS = 32;
const TILE_ROWS = 64;

export function gemmFloatLaunch(
  context: LoweringContext,
  { input, stride }: Extract<MatmulInput, { form: "floats" }>,
  matmul: Matmul,
): LaunchSpec {
  return {
    label: "gemm of floats",
    file: "matmul/gemm-float",
    variants: [
      {
        kernel: "gemm_float",
        defines: { TYPE0: matmul.type, BIAS_TYPE: matmul.biasType ?? 0, ...matmulDefines([matmul], undefined) },
      },
    ],
    arguments: {
      inputs: input,
      row_count: context.rowCount(matmul.rows),
      weights: matmul.weight,
      bias: matmul.bias,
      factor: matmul.factor,
      out: matmul.out.place,
      input_stride: stride,
      width: matmul.width,
      rows: matmul.outputs,
      stride: matmul.out.stride,
      residual: matmul.residual?.place ?? 0,
      residual_stride: matmul.residual?.stride ?? 0,
    },
    grid: (size) => [Math.ceil(matmul.outputs / TILE_ROWS), Math.ceil(rowsOf(size, matmul.rows) / TILE_TOKENS), 1],
  };
}
