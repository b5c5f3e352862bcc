// What a kernel's code object says of its speed on a card that is not here: registers, occupancy, bytes in flight, and the
// issue slots of its hot loop for each byte that it streams.

import type { KernelUse } from "../code-object.js";
import { type Card, neededBytes, occupancy, slotsPerByte } from "./cards.js";
import {
  awaitedLoads,
  type Instruction,
  isBarrier,
  isDot4,
  isDpp,
  isFlat,
  isGlobalLoad,
  isInvalidation,
  isLaneExchange,
  isMatrix,
  isSharedLoad,
  isStreamed,
  isVector,
  type KernelCode,
  loadedBytes,
  slotsOf,
} from "./disassembly.js";
import type { HotKernel } from "./hot-kernels.js";
import { loopsOf } from "./loops.js";

export interface KernelFigures {
  readonly registers: number;
  readonly stackBytes: number;
  readonly sharedBytes: number;
  /** Waves that a SIMD may hold, and that the launch gives it. */
  readonly occupancy: number;
  readonly waves: number;
  readonly flat: number;
  readonly laneExchanges: number;
  readonly dpp: number;
  readonly sharedLoads: number;
  readonly matrix: number;
  /** Barriers with an invalidation of the cache right behind them. */
  readonly invalidations: number;
  /** Issue slots of a turn of the hot loop, for each byte that it streams, and of these the vector unit's. */
  readonly slots: number;
  readonly slotsPerByte: number;
  readonly vectorSlotsPerByte: number;
  /** How many slots of one kind the card has for a byte. */
  readonly budget: number;
  /** In the hot loop: issues from the last load that a wait is for to that wait, at least; loads that stay on their way, at most. */
  readonly waitDistance: number;
  readonly bytesInFlight: number;
  readonly neededBytes: number;
  /** The hot loop, for llvm-mca. */
  readonly region: readonly Instruction[];
}

/** The part of a kernel that its time goes to: a loop, or all of it if none does the work. */
interface Region {
  readonly body: readonly Instruction[];
  readonly isLoop: boolean;
}

export function kernelFigures(card: Card, hot: HotKernel, use: KernelUse, code: KernelCode): KernelFigures {
  const threads = use.launch?.threads ?? 0;
  const sharedBytes = use.sharedBytes + hot.dynamicBytes;
  const possible = occupancy(card, { threads, vectorRegisters: use.vectorRegisters, sharedBytes });
  const blockWaves = Math.ceil(threads / card.device.waveSize);
  const simds = card.computeUnits * card.family.simds;
  const waves = Math.min(possible, (hot.blocks * blockWaves) / simds);
  const all = code.instructions;
  const region = hotRegion(hot, code);
  const { body } = region;
  const bytes = regionBytes(hot, body) * card.device.waveSize;
  const count = (matches: (instruction: Instruction) => boolean): number => all.filter(matches).length;
  const flight = flightOf(hot, region, card.device.waveSize);
  return {
    registers: use.vectorRegisters,
    stackBytes: use.stackBytes,
    sharedBytes,
    occupancy: possible,
    waves,
    flat: count(isFlat),
    laneExchanges: count(isLaneExchange),
    dpp: count(isDpp),
    sharedLoads: body.filter(isSharedLoad).length,
    matrix: body.filter(isMatrix).length,
    invalidations: all.filter((instruction, index) => isBarrier(instruction) && isFollowedByInvalidation(all, index))
      .length,
    slots: slots(body),
    slotsPerByte: slots(body) / bytes,
    vectorSlotsPerByte: slots(body.filter(isVector)) / bytes,
    budget: slotsPerByte(card),
    waitDistance: flight.waitDistance,
    bytesInFlight: flight.bytes * waves * simds,
    // A launch that is done in less than twice the latency has half of its bytes on their way on average, at best.
    neededBytes: Math.min(neededBytes(card), hot.kind === "stream" ? hot.streamedBytes / 2 : Infinity),
    region: body,
  };
}

/** Fences of the whole device have theirs elsewhere. */
function isFollowedByInvalidation(all: readonly Instruction[], barrier: number): boolean {
  return all.slice(barrier + 1, barrier + 4).some(isInvalidation);
}

const slots = (body: readonly Instruction[]): number =>
  body.reduce((sum, instruction) => sum + slotsOf(instruction), 0);

function worksOn({ kind, bytesPerWeight }: HotKernel): (instruction: Instruction) => boolean {
  if (kind === "matrix") return isMatrix;
  if (kind === "attention") return isGlobalLoad;
  return bytesPerWeight >= 2 ? isStreamed : isDot4;
}

/** The innermost loop that does most of the work, or all between the first load and the last work if none does. */
function hotRegion(hot: HotKernel, code: KernelCode): Region {
  const isWork = worksOn(hot);
  const loops = loopsOf(code).map((body) => ({ body, work: body.filter(isWork).length }));
  const most = loops.reduce((highest, { work }) => Math.max(highest, work), 0);
  // A nest has the work of its innermost loop; loops of other matrices have about as much.
  const found = loops.find(({ work }) => work > 0 && work >= most / 2);
  if (found !== undefined) return { body: found.body, isLoop: true };
  const first = Math.max(0, code.instructions.findIndex(isStreamed));
  return { body: code.instructions.slice(first, code.instructions.findLastIndex(isWork) + 1), isLoop: false };
}

/** What a lane streams in the region: by the dot products that it makes, or by what it loads. */
function regionBytes(hot: HotKernel, body: readonly Instruction[]): number {
  const { kind, bytesPerWeight, defines } = hot;
  if (kind === "stream" && bytesPerWeight < 2)
    return (body.filter(isDot4).length * 4 * bytesPerWeight) / Number(defines["TOKENS"] ?? 1);
  const loads = body.filter(kind === "stream" ? isStreamed : isGlobalLoad);
  return loads.reduce((sum, load) => sum + loadedBytes(load), 0);
}

interface Flight {
  /** Of a wave, when it begins to wait. */
  readonly bytes: number;
  readonly waitDistance: number;
}

/**
 * Loads on their way, in order, as a wave goes through the region: twice through a loop, of which the second turn counts. All
 * ways through it are taken one after the other.
 */
function flightOf({ kind }: HotKernel, { body, isLoop }: Region, lanes: number): Flight {
  const counts = kind === "stream" ? isStreamed : isGlobalLoad;
  const outstanding: { readonly issued: number; readonly bytes: number }[] = [];
  let issued = 0;
  let waitDistance = Infinity;
  const found: number[] = [];
  for (const turn of isLoop ? [0, 1, 2] : [2]) {
    for (const instruction of body) {
      issued += slotsOf(instruction) === 0 ? 0 : 1;
      if (isGlobalLoad(instruction))
        outstanding.push({ issued, bytes: counts(instruction) ? loadedBytes(instruction) : 0 });
      const left = awaitedLoads(instruction);
      if (left === undefined || left >= outstanding.length) continue;
      const before = outstanding.reduce((sum, { bytes }) => sum + bytes, 0);
      const done = outstanding.splice(0, outstanding.length - left);
      const streamed = done.findLast(({ bytes }) => bytes > 0);
      if (turn < 2 || streamed === undefined) continue;
      waitDistance = Math.min(waitDistance, issued - streamed.issued);
      found.push(before);
    }
  }
  const bytes = found.length === 0 ? 0 : found.reduce((sum, value) => sum + value, 0) / found.length;
  return { bytes: bytes * lanes, waitDistance: Number.isFinite(waitDistance) ? waitDistance : 0 };
}
