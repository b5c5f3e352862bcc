// The backends that must agree with `reference`: the CPU backend once for each instruction set this machine can run.
// Where the addon could not be built for want of tools its tests skip and say so; anything else without it is a failure.

import { readFileSync } from "node:fs";
import { describe } from "vitest";
import type { Backend } from "../../src/backends/contract.js";
import { loadAddon } from "../../src/backends/cpu/addon.js";
import { CpuBackend } from "../../src/backends/cpu/backend.js";
import type { NativeAddon } from "../../src/backends/cpu/border.js";

export interface Subject {
  readonly name: string;
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

export const SUBJECTS: readonly Subject[] = ISAS.map((isa) => ({
  name: `cpu ${isa}`,
  create: ({ threads = 2, deterministic = false } = {}) => new CpuBackend(requireAddon(), { isa, threads, deterministic }),
}));

/** Where one instruction set stands for all: what is tested does not depend on it. */
export const BEST_SUBJECT: Subject = SUBJECTS[0];

export function describeCpu(title: string, body: () => void): void {
  describe.skipIf(absence !== undefined)(`${title}${why}`, () => {
    body();
  });
}

export function describeSubjects(body: (subject: Subject) => void): void {
  for (const subject of SUBJECTS) describeCpu(subject.name, () => body(subject));
}
