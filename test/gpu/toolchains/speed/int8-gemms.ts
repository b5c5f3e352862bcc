// Products of bytes against products of halves, by their code: what the hot loops of matmul/gemm.hip and matmul/int8-gemm.hip
// cost for each product of 16 rows, 16 tokens and 32 columns, on the cards whose matrix units are twice as quick with bytes.

import type { TemporaryFolder } from "../../../support/temporary-folder.js";
import {
  TILE_TOKEN_COUNTS,
  type GemmRequest,
  gemmShape,
  type TileTokens,
  waveCount,
} from "../../../../src/backends/gpu/lowering/gemm-shape.js";
import { layoutByName, type SupportedTypeName } from "../../../../src/quant/layout.js";
import type { Card } from "./cards.js";
import { type Instruction, isMatrix, isSharedLoad, isVector, slotsOf } from "./disassembly.js";
import { measureKernel } from "./measure.js";

export const BYTE_TYPES = ["Q4_0", "Q8_0", "Q4_K", "Q6_K"] as const satisfies readonly SupportedTypeName[];
/** Public peaks: MI300X 1,307 and 2,615 T a second, MI355X 2,517 and 5,033, RX 9070 XT 195 and 389. */
export const BYTE_ARCHITECTURES: readonly string[] = ["gfx942", "gfx950", "gfx1201"];

/** Rows and columns of 8B's attention output. */
const SIZE = 4096;
const BLOCKS_PER_MULTIPROCESSOR = 4;
const TILE = 16;

/** What one kind of products costs. */
export interface GemmCost {
  readonly registers: number;
  readonly stackBytes: number;
  readonly sharedKb: number;
  readonly occupancy: number;
  /** Of a product: instructions of the matrix unit, of the vector unit beside them, and loads from shared memory. */
  readonly matrix: number;
  readonly vector: number;
  readonly sharedLoads: number;
  /** Matrix instructions for each KB of weights. */
  readonly matrixPerKb: number;
  /** Cycles of a SIMD for a product: of the matrix unit, and of the vector unit with the issue of matrix instructions. */
  readonly matrixCycles: number;
  readonly vectorCycles: number;
  /** What a product takes at least. */
  readonly cycles: number;
}

export interface ComparedGemms {
  readonly type: (typeof BYTE_TYPES)[number];
  readonly tokens: TileTokens;
  readonly halves: GemmCost;
  readonly bytes: GemmCost;
}

export async function compareGemms(card: Card, folder: TemporaryFolder): Promise<readonly ComparedGemms[]> {
  const compared: ComparedGemms[] = [];
  for (const type of BYTE_TYPES) {
    for (const tokens of TILE_TOKEN_COUNTS) {
      const [halves, bytes] = await Promise.all(
        [false, true].map(async (isInt8) => await gemmCost(card, type, tokens, isInt8, folder)),
      );
      compared.push({ type, tokens, halves, bytes });
    }
  }
  return compared;
}

async function gemmCost(
  card: Card,
  type: SupportedTypeName,
  tokens: TileTokens,
  isInt8: boolean,
  folder: TemporaryFolder,
): Promise<GemmCost> {
  const { multiprocessors, waveSize } = card.device;
  const request: GemmRequest = {
    rows: [SIZE],
    width: SIZE,
    gated: false,
    multiprocessors,
    kind: "hip",
    mostBlocks: multiprocessors * BLOCKS_PER_MULTIPROCESSOR,
    isInt8,
  };
  const { waves, stages, blocks, splits, sharedBytes } = gemmShape(request, tokens, tokens);
  const layout = layoutByName(type);
  const bytesPerWeight = layout.blockBytes / layout.blockElements;
  const hot = {
    label: `${type} ${tokens}`,
    kind: "matrix",
    file: isInt8 ? "matmul/int8-gemm" : "matmul/gemm",
    kernel: isInt8 ? "int8_gemm" : "gemm",
    defines: {
      TYPE0: layout.id,
      TOKENS: tokens,
      HALVES: waves.halves,
      ROW_WAVES: waves.rows,
      DEPTH_WAVES: waves.depth,
      WAVES: waveCount(waves),
      ...(isInt8 ? {} : { STAGES: stages }),
      MATMULS: 1,
      GATED: 0,
      BIAS_TYPE: 0,
    },
    dynamicBytes: sharedBytes,
    blocks: blocks * splits,
    bytesPerWeight,
    streamedBytes: SIZE * SIZE * bytesPerWeight,
  } as const;
  const path = folder.file(`${card.architecture}-${type}-${tokens}-${isInt8 ? "bytes" : "halves"}`);
  const { figures } = await measureKernel(card, hot, path);
  // A lane has a block of 32 columns, or its share of four.
  const turnBlocks = isInt8 || waveSize === 64 ? 4 : 2;
  const tileMatmuls = turnBlocks * waves.halves * (tokens / waves.tokens / TILE);
  const matrixInstructions = figures.region.filter(isMatrix);
  const count = (matches: (instruction: Instruction) => boolean): number => figures.region.filter(matches).length;
  const slots = figures.region.filter(isVector).reduce((sum, instruction) => sum + slotsOf(instruction), 0);
  const [matrixCycles, vectorCycles] = [
    matrixInstructions.reduce((sum, instruction) => sum + cyclesOf(instruction), 0),
    (isCdna(card) ? slots : slots - matrixInstructions.length) * issueCycles(card),
  ].map((cycles) => cycles / tileMatmuls);
  const kilobytes = (turnBlocks * waves.halves * TILE * 32 * bytesPerWeight) / 1024;
  return {
    registers: figures.registers,
    stackBytes: figures.stackBytes,
    sharedKb: figures.sharedBytes / 1024,
    occupancy: figures.occupancy,
    matrix: matrixInstructions.length / tileMatmuls,
    vector: (count(isVector) - matrixInstructions.length) / tileMatmuls,
    sharedLoads: count(isSharedLoad) / tileMatmuls,
    matrixPerKb: matrixInstructions.length / kilobytes,
    matrixCycles,
    vectorCycles,
    // RDNA's matrix instructions keep the vector unit; CDNA's are another unit, which other waves' instructions run beside.
    cycles: isCdna(card) ? Math.max(matrixCycles, vectorCycles) : matrixCycles + vectorCycles,
  };
}

const isCdna = ({ family }: Card): boolean => family.simds === 4;
/** Of an instruction of a wave on a SIMD: 64 lanes go through 16, or 32 through 32. */
const issueCycles = (card: Card): number => (isCdna(card) ? 4 : 1);

/** Of a SIMD: by the public peaks, and LLVM's scheduling model of CDNA (four and eight passes of four cycles). */
function cyclesOf({ name }: Instruction): number {
  if (name.startsWith("v_mfma")) return name.includes("16x16x4_f32") ? 32 : 16;
  return name.includes("iu8") ? 8 : 16;
}
