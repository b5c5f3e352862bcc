// The cards that kernels are compiled for, with what lowering asks of a device: one card of each architecture, so that rows
// a wave, waves a row and tiles come out as they would there.

import type { DriverKind, GpuProperties } from "../../../src/backends/gpu/drivers/shared/driver.js";

export interface Target {
  readonly architecture: string;
  readonly kind: DriverKind;
  readonly device: Pick<GpuProperties, "architecture" | "waveSize" | "multiprocessors" | "sharedBytes" | "totalBytes">;
}

const KIB = 2 ** 10;
const GIB = 2 ** 30;

function amd(architecture: string, waveSize: 32 | 64, multiprocessors: number, memoryGib: number): Target {
  return {
    architecture,
    kind: "hip",
    device: { architecture, waveSize, multiprocessors, sharedBytes: 64 * KIB, totalBytes: memoryGib * GIB },
  };
}

function nvidia(architecture: string, multiprocessors: number, sharedKib: number, memoryGib: number): Target {
  return {
    architecture,
    kind: "cuda",
    device: { architecture, waveSize: 32, multiprocessors, sharedBytes: sharedKib * KIB, totalBytes: memoryGib * GIB },
  };
}

/** Those of AMD's that HIP 5.2 knows: MI50, MI210, RX 6900 XT. */
export const HIPRTC_TARGETS = [
  amd("gfx906", 64, 60, 16),
  amd("gfx90a", 64, 104, 64),
  amd("gfx1030", 32, 40, 16),
] as const;
/** Newer ones: MI300X, RX 7900 XTX, RX 9060 XT. */
export const CLANG_TARGETS = [
  amd("gfx942", 64, 304, 192),
  amd("gfx1100", 32, 48, 24),
  amd("gfx1200", 32, 16, 16),
] as const;
/** A100, H100. */
export const NVIDIA_TARGETS = [nvidia("sm_80", 108, 163, 40), nvidia("sm_90", 132, 227, 80)] as const;

/** Kernel files that only some architectures have. */
const OWN_FILES: Readonly<Record<string, readonly string[]>> = {
  "attention/flash": ["sm_90"],
  "attention/wide-flash": ["sm_90"],
  "matmul/grouped-wide": ["sm_90"],
  "matmul/wide-gemm": ["sm_90"],
  "matmul/int8-gemm": ["gfx942", "gfx950", "gfx1200", "gfx1201"],
};

/** Whether a card of this architecture may launch kernels of the file. */
export function isFileFor(file: string, architecture: string): boolean {
  return OWN_FILES[file]?.includes(architecture) ?? true;
}
