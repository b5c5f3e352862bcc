// How matmuls of one token are cut whose lanes keep their part of the input (kernels/matmul/lane-rows.h): as many waves share a
// row as it has blocks for, a launch is one wave of blocks over the device where it can be, and a block that writes quantized
// columns has the rows that share a scale. As measured on an H200 with Q4_K, Q6_K and Q8_0.

import type { TensorDescriptor } from "../../../tensor/descriptor.js";
import type { GpuLoweringOptions } from "./context.js";
import type { ParametersOf } from "./kernel-families.js";

/** NVIDIA's from sm_90 on: launches there begin while the ones before them end, which this cut is made for. */
const ARCHITECTURE = /^sm_(?:9\d|\d{3})/;
const LANES = 32;
const BLOCK_COLUMNS = 32;
/** Rows whose results share a scale. */
const QUANTIZED_ROWS = 32;
/** Waves of a multiprocessor, with 128 registers a lane. */
const RESIDENT_WAVES = 16;
const USUAL_WAVES = 4;
const MAX_RESIDENT_BLOCKS = 4;
/** Rows on their way to a lane: of types whose blocks take few registers, and of the others. */
const DEPTH_ROWS = 8;
const LEAST_DEPTH_ROWS = 4;
/** Q5_K, IQ4_XS, NVFP4: blocks of many registers, or many to decode them. */
const LARGE_TYPES: ReadonlySet<number> = new Set([13, 23, 40]);
const Q6_K = 14;

/** Rows of matrices that are output matrices. */
const VOCABULARY_ROWS = 1 << 16;

export interface LaneRequest {
  /** Of each matrix; of a gated launch the gate's alone. */
  readonly rows: readonly number[];
  readonly width: number;
  /** ggml types of the weights. */
  readonly types: readonly number[];
  /** `gated`: two matrices at a time; `handed`: results leave as quantized columns too. */
  readonly form: "plain" | "gated" | "handed";
  readonly multiprocessors: number;
}

export interface LaneShape {
  readonly defines: Readonly<
    Record<"LANES" | "THREADS" | "ROWS" | "SPLIT" | "DEPTH" | "PASSES" | "STAGED" | "WIDTH", number>
  >;
  /** Rows of a block. */
  readonly blockRows: number;
  /** Of each matrix. */
  readonly blocks: readonly number[];
}

/** Whether matmuls of one token with inputs of this width are computed so. */
export function takesLanes(
  { device, deterministic }: Pick<GpuLoweringOptions, "device" | "deterministic">,
  width: number,
): boolean {
  const isKnown = device.architecture !== undefined && ARCHITECTURE.test(device.architecture);
  return isKnown && device.waveSize === LANES && !deterministic && isLaneWidth(width);
}

/** Whether a matrix is so large that a norm before it, as a launch of its own, costs less than one in each of its blocks. */
export function normsApart(
  options: Pick<GpuLoweringOptions, "device" | "deterministic">,
  { shape, elements }: Pick<TensorDescriptor, "shape" | "elements">,
): boolean {
  return takesLanes(options, shape[0]) && elements / shape[0] >= VOCABULARY_ROWS;
}

/** Whether a block has a lane for every block of a row. */
function isLaneWidth(width: number): boolean {
  return width % BLOCK_COLUMNS === 0 && wavesOf(width) <= RESIDENT_WAVES;
}

export type LaneParameters = ParametersOf<"lane-gemv">;

/** What the formulas take. */
export function usualLaneParameters(request: LaneRequest): LaneParameters {
  const split = wavesOf(request.width);
  const cut = request.form === "plain" ? plainCut(request, split) : quantizedCut(request, split);
  return { rows: cut.rowsTogether, passes: cut.passes, teams: cut.teams };
}

/** Whether a launch can be cut so: rows that a lane has registers for, and a thread for each result. */
export function isLaneShape({ width, form }: LaneRequest, { rows, passes, teams }: LaneParameters): boolean {
  const waves = teams * wavesOf(width);
  const blockRows = teams * rows * passes;
  const isHeld = Number.isInteger(Math.log2(rows)) && rows <= (form === "gated" ? DEPTH_ROWS / 2 : DEPTH_ROWS);
  const isWhole = form === "plain" || blockRows === QUANTIZED_ROWS;
  return isHeld && isWhole && waves <= RESIDENT_WAVES && blockRows <= waves * LANES;
}

export function laneShape(
  request: LaneRequest,
  { rows, passes, teams }: LaneParameters = usualLaneParameters(request),
): LaneShape {
  const { width } = request;
  const split = wavesOf(width);
  const blockRows = teams * rows * passes;
  return {
    defines: {
      LANES: 1,
      THREADS: teams * split * LANES,
      ROWS: rows,
      SPLIT: split,
      DEPTH: 1,
      PASSES: passes,
      STAGED: 0,
      WIDTH: width,
    },
    blockRows,
    blocks: request.rows.map((count) => Math.ceil(count / blockRows)),
  };
}

interface Cut {
  /** Of a block. */
  readonly teams: number;
  readonly rowsTogether: number;
  readonly passes: number;
}

/**
 * One pass where rows are few: blocks that end soon make room for those of the next launch, which has its weights on their way
 * from then on.
 */
function plainCut(request: LaneRequest, split: number): Cut {
  const { rows, multiprocessors } = request;
  const teams = Math.max(1, floorToPower(USUAL_WAVES / split));
  const resident = Math.max(1, Math.floor(RESIDENT_WAVES / (teams * split)));
  const all = rows.reduce((sum, count) => sum + count, 0);
  const wanted = Math.ceil(all / (multiprocessors * resident * teams));
  const teamRows = Math.min(wanted, QUANTIZED_ROWS / teams);
  const rowsTogether = Math.min(rowsOnTheWay(request), ceilToPower(teamRows));
  return { teams, rowsTogether, passes: Math.floor(teamRows / rowsTogether) || 1 };
}

/** Blocks of as many rows as share a scale, of as many waves as there is room for and have rows enough. */
function quantizedCut(request: LaneRequest, split: number): Cut {
  const blocks = Math.ceil(request.rows[0] / QUANTIZED_ROWS);
  const resident = Math.min(MAX_RESIDENT_BLOCKS, Math.ceil(blocks / request.multiprocessors));
  const waves = floorToPower(RESIDENT_WAVES / resident / split);
  const teams = Math.max(1, Math.min(waves, QUANTIZED_ROWS / LEAST_DEPTH_ROWS));
  const teamRows = QUANTIZED_ROWS / teams;
  const rowsTogether = Math.min(teamRows, rowsOnTheWay(request));
  return { teams, rowsTogether, passes: teamRows / rowsTogether };
}

/** Of each matrix. */
function rowsOnTheWay({ types, form }: LaneRequest): number {
  const isGated = form === "gated";
  const areLarge = types.some((type) => LARGE_TYPES.has(type) || (isGated && type === Q6_K));
  const most = areLarge ? LEAST_DEPTH_ROWS : DEPTH_ROWS;
  return isGated ? most / 2 : most;
}

function wavesOf(width: number): number {
  return Math.ceil(width / (BLOCK_COLUMNS * LANES));
}

/** The largest power of two that is no more. */
function floorToPower(count: number): number {
  return count < 1 ? 0 : 2 ** Math.floor(Math.log2(count));
}

function ceilToPower(count: number): number {
  return 2 ** Math.ceil(Math.log2(count));
}
