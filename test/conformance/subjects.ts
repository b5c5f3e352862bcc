// The backends that must agree with `reference`: the CPU backend once for each instruction set this machine can run.

import type { Backend } from "../../src/backends/contract.js";
import { loadAddon } from "../../src/backends/cpu/addon.js";
import { CpuBackend } from "../../src/backends/cpu/backend.js";

export interface Subject {
  readonly name: string;
  create(options?: { readonly threads?: number; readonly deterministic?: boolean }): Backend;
}

const loaded = loadAddon();
/** The suite is about these kernels, so a machine that cannot build them has failed it. */
if ("reason" in loaded) throw new Error(`the CPU addon did not load: ${loaded.reason}; ${loaded.remedy}`);
const { addon } = loaded;

export const SUBJECTS: readonly Subject[] = addon.isas.map((isa) => ({
  name: `cpu ${isa}`,
  create: ({ threads = 2, deterministic = false } = {}) => new CpuBackend(addon, { isa, threads, deterministic }),
}));

/** Where one instruction set stands for all: what is tested does not depend on it. */
export const BEST_SUBJECT: Subject = SUBJECTS[0];
