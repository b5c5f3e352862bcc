// Launches of matmul/gemm.hip: half rows times up to three matrices on the matrix units, or gate and up as one.

import type { Activation } from "../../../graph/operation.js";
import type { LaunchSize, LaunchSpec } from "./launch.js";
import { TILE_TOKEN_COUNTS, type TileRequest, type TileShape, tileShape, tileWaves, waveCount } from "./gemm-shape.js";
import { type LoweringContext, rowsOf } from "./context.js";
import type { ProductInput } from "./inputs.js";
import { type Product, productArguments, productDefines } from "./matmul.js";

type HalfInput = Extract<ProductInput, { form: "half" }>;

/** Index of the smallest tile that holds so many tokens; the largest for more, which take several blocks. */
function tileOf(tokens: number): number {
  const index = TILE_TOKEN_COUNTS.findIndex((count) => tokens <= count);
  return index === -1 ? TILE_TOKEN_COUNTS.length - 1 : index;
}

export function tiledProducts(
  context: LoweringContext,
  input: HalfInput,
  products: readonly Product[],
  activation?: Activation,
): LaunchSpec {
  const [{ width, rows }] = products;
  const gated = activation !== undefined;
  const { device } = context.facts;
  const { regions } = context;
  const request: TileRequest = {
    rows: gated ? [products[0].outputs] : products.map(({ outputs }) => outputs),
    width,
    gated,
    multiprocessors: device.multiprocessors,
    kind: context.facts.kind,
    mostBlocks: regions.tileBlocks,
  };
  const waves = TILE_TOKEN_COUNTS.map((count) => tileWaves(request, count));
  const shapeFor = (size: LaunchSize): TileShape => {
    const tokens = rowsOf(size, rows);
    const tile = tileOf(tokens);
    return tileShape(request, TILE_TOKEN_COUNTS[tile], tokens, waves[tile]);
  };
  const types = Object.fromEntries(products.map(({ type }, index) => [`TYPE${index}`, type]));
  return {
    label: gated ? "gate and up, tiled" : "products, tiled",
    file: "matmul/gemm",
    variants: TILE_TOKEN_COUNTS.map((count, tile) => {
      const { stages, sharedBytes } = tileShape(request, count, count, waves[tile]);
      return {
        kernel: "product_tile",
        defines: {
          ...types,
          TOKENS: count,
          HALVES: waves[tile].halves,
          ROW_WAVES: waves[tile].rows,
          DEPTH_WAVES: waves[tile].depth,
          WAVES: waveCount(waves[tile]),
          STAGES: stages,
          PRODUCTS: products.length,
          GATED: gated ? 1 : 0,
          BIAS_TYPE: products.find(({ biasType }) => biasType !== undefined)?.biasType ?? 0,
          ...productDefines(products, activation),
        },
        sharedBytes,
      };
    }),
    choose: (size) => tileOf(rowsOf(size, rows)),
    arguments: {
      ...productArguments(products),
      halves: input.halves,
      row_scales: input.rowScales,
      halves_stride: input.stride,
      row_count: context.rowCount(rows),
      partial: regions.tilePartial,
      arrivals: regions.tileArrivals,
      width,
    },
    sized: (size) => ({ splits: shapeFor(size).splits }),
    grid: (size) => {
      const { blocks, splits, tokenBlocks } = shapeFor(size);
      return [blocks, tokenBlocks, splits];
    },
  };
}
