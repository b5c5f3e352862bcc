// How much memory an integrated AMD GPU has. HIP's own figures are unreliable there: some versions count only the BIOS
// carve-out, some report more free than total (ROCm/hip#3892, legacy-rocm-build#6004). The kernel driver reports two
// pools in sysfs: VRAM, which is the carve-out, and GTT, which is host memory. On an integrated GPU whose GTT is the
// larger pool, allocations go there (Linux 6.10 and later).

import { readFileSync } from "node:fs";
import { freemem, totalmem } from "node:os";
import { join } from "node:path";

/** Total and free bytes of a device or of the host. */
export interface MemoryAmount {
  readonly totalBytes: number;
  readonly freeBytes: number;
}

/** The kernel driver's memory pools. */
export interface MemoryPools {
  readonly vram: MemoryAmount;
  readonly gtt: MemoryAmount;
}

const DEVICES = "/sys/bus/pci/devices";
/** `0000:c5:00.0`: domain, bus, device and function. */
const PCI_ADDRESS = /^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$/i;

/** Pools of the device at a PCI address; undefined if the kernel driver does not report them. */
export function memoryPools(pciAddress: string, devices: string = DEVICES): MemoryPools | undefined {
  if (!PCI_ADDRESS.test(pciAddress)) return undefined;
  const folder = join(devices, pciAddress.toLowerCase());
  const pool = (name: "vram" | "gtt"): MemoryAmount | undefined => {
    const totalBytes = numberIn(join(folder, `mem_info_${name}_total`));
    const usedBytes = numberIn(join(folder, `mem_info_${name}_used`));
    return totalBytes === undefined || usedBytes === undefined
      ? undefined
      : { totalBytes, freeBytes: Math.max(0, totalBytes - usedBytes) };
  };
  const [vram, gtt] = [pool("vram"), pool("gtt")];
  return vram === undefined || gtt === undefined ? undefined : { vram, gtt };
}

/** The memory that an integrated GPU can allocate, from HIP's figures and the kernel driver's. */
export function sharedMemory(
  reported: MemoryAmount,
  pools: MemoryPools | undefined,
  host: MemoryAmount = { totalBytes: totalmem(), freeBytes: freemem() },
): MemoryAmount {
  if (pools === undefined) return withinTotal(reported, host);
  const { vram, gtt } = pools;
  // GTT may be configured larger than the host's memory, which the host uses too.
  if (gtt.totalBytes > vram.totalBytes)
    return {
      totalBytes: Math.min(gtt.totalBytes, host.totalBytes),
      freeBytes: Math.min(gtt.freeBytes, host.freeBytes),
    };
  return vram;
}

/** If more is free than the total, the total was counted too low; it is still bounded by the machine's memory. */
function withinTotal({ totalBytes, freeBytes }: MemoryAmount, host: MemoryAmount): MemoryAmount {
  const mostBytes = Math.max(totalBytes, Math.min(freeBytes, host.totalBytes));
  return { totalBytes: mostBytes, freeBytes: Math.min(freeBytes, mostBytes) };
}

function numberIn(path: string): number | undefined {
  try {
    const text = readFileSync(path, "utf8").trim();
    return /^\d+$/.test(text) ? Number(text) : undefined;
  } catch {
    return undefined;
  }
}
