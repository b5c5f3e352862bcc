// The backends that must agree with `reference`: the CPU backend once for each instruction set this machine can run, and
// the GPU backend on the emulated HIP device at both wave sizes and on an NVIDIA card where there is one. Where the addon or
// the emulator could not be built for want of tools their tests skip and say so; anything else without them is a failure.

import { readFileSync } from "node:fs";
import { describe } from "vitest";
import type { Backend } from "../../src/backends/contract.js";
import { loadAddon } from "../../src/backends/cpu/addon.js";
import { CpuBackend } from "../../src/backends/cpu/backend.js";
import type { NativeAddon } from "../../src/backends/cpu/native-bindings.js";
import { hasDeviceLayout } from "../../src/backends/gpu/memory/weight-layout.js";
import { SUPPORTED, type SupportedLayout } from "../../src/quant/layout.js";
import { describeCard, openCard } from "../gpu/cuda-card.js";
import { openEmulated, type WaveSize } from "../gpu/emulated-hip.js";
import { describeEmulator } from "../gpu/emulator/build.js";
import { FULL_RUN } from "../support/full-run.js";

export interface Subject {
  readonly name: string;
  /** Types of weights that it computes with. */
  readonly types: readonly SupportedLayout[];
  /** All cases in full runs; otherwise the few that stand for them where a subject is slow. */
  cases<Case>(all: readonly Case[], few: readonly NoInfer<Case>[]): readonly Case[];
  /**
   * The same for a list of tests: in `npm test` each of the few runs at one wave size of the emulated device, in turn, and
   * in full runs at both. To be called for every subject alike, and not inside of a test.
   */
  spread<Case>(all: readonly Case[], few: readonly NoInfer<Case>[]): readonly Case[];
  /**
   * As `cases`, for tests of whole models, whose kernels have tests of their own: in `npm test` the instruction sets after
   * the first take turns. To be called with the same list by every subject.
   */
  inTurn<Case>(all: readonly Case[], few: readonly NoInfer<Case>[]): readonly Case[];
  /** Whether attention of prompts computes in f16 on the way; products of prompts are judged by one bound everywhere. */
  readonly promptsInHalves: boolean;
  create(options?: { readonly threads?: number; readonly deterministic?: boolean }): Backend;
}

const RECORD = new URL("../../native/cpu/build-failure.json", import.meta.url);

function lacksTools(): boolean {
  try {
    return (JSON.parse(readFileSync(RECORD, "utf8")) as { readonly kind?: unknown }).kind === "tools";
  } catch {
    return false;
  }
}

const loaded = loadAddon();
const absence = "reason" in loaded ? `the CPU addon did not load: ${loaded.reason}; ${loaded.remedy}` : undefined;
if (absence !== undefined && !lacksTools()) throw new Error(absence);
const why = absence === undefined ? "" : ` (skipped: ${absence})`;

/** For use in tests under `describeCpu`. */
export function requireAddon(): NativeAddon {
  if ("reason" in loaded) throw new Error(absence);
  return loaded.addon;
}

/** One stands in where there are none, so that what is skipped is counted. */
const ISAS: readonly string[] = "reason" in loaded ? ["addon"] : loaded.addon.isas;

const CPU_SUBJECTS: readonly Subject[] = ISAS.map((isa, index) => ({
  name: `cpu ${isa}`,
  types: SUPPORTED,
  cases: (all) => all,
  spread: (all) => ofTurn(all, index),
  inTurn: (all) => ofTurn(all, index),
  promptsInHalves: false,
  create: ({ threads = 2, deterministic = false } = {}) =>
    new CpuBackend(requireAddon(), { isa, threads, deterministic }),
}));

/** In `npm test` the instruction sets after the first share the cases. */
function ofTurn<Case>(all: readonly Case[], index: number): readonly Case[] {
  if (FULL_RUN || index === 0) return all;
  const own = all.filter((_, place) => place % (ISAS.length - 1) === index - 1);
  return own.length === 0 ? all : own;
}

/** Of all tests that are spread over the wave sizes, every second one. */
function everySecond(first: 0 | 1): Subject["spread"] {
  let turn = first;
  return (all, few) => (FULL_RUN ? all : few.filter(() => turn++ % 2 === 0));
}

const WAVE_SIZES: readonly WaveSize[] = [32, 64];

function emulatedSubject(waveSize: WaveSize): Subject {
  return {
    name: `hip emulated wave ${waveSize}`,
    types: SUPPORTED.filter(({ name }) => hasDeviceLayout(name)),
    // Kernels are compiled for the emulator, and run there one thread at a time.
    cases: (all, few) => (FULL_RUN ? all : few),
    spread: everySecond(waveSize === 32 ? 0 : 1),
    inTurn: (all, few) => (FULL_RUN ? all : few),
    promptsInHalves: true,
    create: ({ deterministic = false } = {}) => openEmulated(waveSize, { deterministic }),
  };
}

/** A card is quick enough for all cases. */
const CARD_SUBJECT: Subject = {
  name: "cuda",
  types: SUPPORTED.filter(({ name }) => hasDeviceLayout(name)),
  cases: (all) => all,
  spread: (all) => all,
  inTurn: (all) => all,
  promptsInHalves: true,
  create: ({ deterministic = false } = {}) => openCard({ deterministic }),
};

/** Where one instruction set stands for all: what is tested does not depend on it. */
export const BEST_SUBJECT: Subject = CPU_SUBJECTS[0];

export function describeCpu(title: string, body: () => void): void {
  describe.skipIf(absence !== undefined)(`${title}${why}`, () => {
    body();
  });
}

interface SubjectOptions {
  /** The only wave size at which the emulated device runs it in `npm test`; in full runs both do. */
  readonly waveSize?: WaveSize;
  /** Whether that is the only one in full runs too, because a test takes minutes. */
  readonly oneWaveSize?: boolean;
}

export function describeSubjects(
  body: (subject: Subject) => void,
  { waveSize: onlyWaveSize, oneWaveSize = false }: SubjectOptions = {},
): void {
  for (const subject of CPU_SUBJECTS) describeCpu(subject.name, () => body(subject));
  for (const waveSize of WAVE_SIZES) {
    if ((oneWaveSize || !FULL_RUN) && onlyWaveSize !== undefined && waveSize !== onlyWaveSize) continue;
    const subject = emulatedSubject(waveSize);
    describeEmulator(subject.name, () => body(subject));
  }
  describeCard(CARD_SUBJECT.name, () => body(CARD_SUBJECT));
}
