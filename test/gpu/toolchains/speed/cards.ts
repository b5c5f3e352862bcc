// The cards of AMD's that kernels are judged for without one, by public figures: AMD's product pages (compute units, clock,
// bandwidth) and LLVM's AMDGPU usage document and target definitions (registers, waves, granules, shared memory).

import type { Target } from "../targets.js";

/** A compute unit of a family, as far as occupancy and issue depend on it. */
interface Family {
  readonly simds: number;
  /** Waves that a SIMD can hold. */
  readonly maxWaves: number;
  /** Vector registers of a SIMD for each lane, shared by its waves. */
  readonly registers: number;
  readonly registerGranule: number;
  /** Of a compute unit; two of RDNA share twice that. */
  readonly sharedBytes: number;
  readonly sharedGranule: number;
  /** Instructions of a wave that all SIMDs of a compute unit together issue in a cycle: CDNA's take four cycles for 64 lanes. */
  readonly issuesPerCycle: number;
}

export interface Card extends Target {
  readonly name: string;
  readonly computeUnits: number;
  readonly clockGhz: number;
  /** Bytes a nanosecond. */
  readonly bandwidthGBs: number;
  readonly family: Family;
}

const KIB = 2 ** 10;
const GIB = 2 ** 30;
/** From a load to its data on a busy card: what must be in flight is the bandwidth times this. */
export const LATENCY_NS = 1000;

const RDNA: Family = {
  simds: 2,
  maxWaves: 16,
  registers: 1536,
  registerGranule: 24,
  sharedBytes: 64 * KIB,
  sharedGranule: 1 * KIB,
  issuesPerCycle: 2,
};
const CDNA3: Family = {
  simds: 4,
  maxWaves: 8,
  registers: 512,
  registerGranule: 8,
  sharedBytes: 64 * KIB,
  sharedGranule: 512,
  issuesPerCycle: 1,
};
const CDNA4: Family = { ...CDNA3, sharedBytes: 160 * KIB, sharedGranule: 1280 };

interface Figures {
  readonly name: string;
  readonly computeUnits: number;
  readonly clockGhz: number;
  readonly bandwidthGBs: number;
  readonly memoryGib: number;
}

/** HIP counts pairs of compute units on RDNA. */
function card(architecture: string, family: Family, { memoryGib, ...figures }: Figures): Card {
  const isRdna = family.simds === 2;
  return {
    architecture,
    kind: "hip",
    family,
    ...figures,
    device: {
      architecture,
      waveSize: isRdna ? 32 : 64,
      multiprocessors: isRdna ? figures.computeUnits / 2 : figures.computeUnits,
      sharedBytes: 64 * KIB,
      totalBytes: memoryGib * GIB,
    },
  };
}

export const CARDS: readonly Card[] = [
  card("gfx1100", RDNA, { name: "RX 7900 XTX", computeUnits: 96, clockGhz: 2.3, bandwidthGBs: 960, memoryGib: 24 }),
  card("gfx1151", RDNA, { name: "Strix Halo", computeUnits: 40, clockGhz: 2.9, bandwidthGBs: 256, memoryGib: 96 }),
  card("gfx1201", RDNA, { name: "RX 9070 XT", computeUnits: 64, clockGhz: 2.4, bandwidthGBs: 640, memoryGib: 16 }),
  card("gfx942", CDNA3, { name: "MI300X", computeUnits: 304, clockGhz: 2.1, bandwidthGBs: 5300, memoryGib: 192 }),
  card("gfx950", CDNA4, { name: "MI355X", computeUnits: 256, clockGhz: 2.4, bandwidthGBs: 8000, memoryGib: 288 }),
];

/** Issue slots of the whole card for each byte that its memory delivers meanwhile. */
export function slotsPerByte({ computeUnits, clockGhz, bandwidthGBs, family }: Card): number {
  return (computeUnits * clockGhz * family.issuesPerCycle) / bandwidthGBs;
}

/** Bytes that must be in flight for the whole bandwidth. */
export function neededBytes({ bandwidthGBs }: Card): number {
  return bandwidthGBs * LATENCY_NS;
}

export interface BlockUse {
  readonly threads: number;
  readonly vectorRegisters: number;
  readonly sharedBytes: number;
}

/** Waves that a SIMD holds at a time, if there are blocks enough. */
export function occupancy({ family, device }: Card, { threads, vectorRegisters, sharedBytes }: BlockUse): number {
  const taken = roundUpTo(Math.max(1, vectorRegisters), family.registerGranule);
  const byRegisters = Math.min(family.maxWaves, Math.floor(family.registers / taken));
  const blockWaves = Math.ceil(threads / device.waveSize);
  const shared = roundUpTo(sharedBytes, family.sharedGranule);
  // RDNA's compute units lend each other shared memory and run a block on both.
  const units = family.simds === 2 ? 2 : 1;
  const byShared = shared === 0 ? Infinity : Math.floor((family.sharedBytes * units) / shared) * blockWaves;
  const simds = family.simds * units;
  const byRegistersBlocks = Math.floor((byRegisters * simds) / blockWaves) * blockWaves;
  return Math.min(byRegistersBlocks, byShared) / simds;
}

function roundUpTo(value: number, granule: number): number {
  return Math.ceil(value / granule) * granule;
}
