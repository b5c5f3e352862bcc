// Integrated GPUs: figures as users of Strix Halo have reported them.

import { mkdirSync, writeFileSync } from "node:fs";
import { afterAll, describe, expect, it } from "vitest";
import { TemporaryFolder } from "../../../../../test/support/temporary-folder.js";
import { memoryPools, sharedMemory } from "./shared-memory.js";

const GIB = 2 ** 30;
const amount = (totalGib: number, freeGib: number) => ({ totalBytes: totalGib * GIB, freeBytes: freeGib * GIB });

describe("memory of an integrated GPU", () => {
  it("is GTT where that is the larger pool, though HIP counts the carve-out or half of it all", () => {
    const pools = { vram: amount(0.5, 0.4), gtt: amount(96, 94) };
    const host = amount(125, 110);
    expect(sharedMemory(amount(15.5, 15), pools, host)).toEqual(amount(96, 94));
    expect(sharedMemory(amount(62.5, 120), pools, host)).toEqual(amount(96, 94));
  });

  it("is no more than the host has, and has left", () => {
    const pools = { vram: amount(0.5, 0.4), gtt: amount(128, 127) };
    expect(sharedMemory(amount(62.5, 120), pools, amount(125, 30))).toEqual(amount(125, 30));
  });

  it("is the carve-out where that is the larger pool", () => {
    expect(sharedMemory(amount(96, 90), { vram: amount(96, 91), gtt: amount(16, 15) }, amount(32, 20))).toEqual(
      amount(96, 91),
    );
  });

  it("is what HIP says where the kernel does not tell, with no more free than total and no more than the machine has", () => {
    expect(sharedMemory(amount(16, 15), undefined, amount(64, 40))).toEqual(amount(16, 15));
    expect(sharedMemory(amount(62, 120), undefined, amount(125, 110))).toEqual(amount(120, 120));
    expect(sharedMemory(amount(62, 200), undefined, amount(125, 110))).toEqual(amount(125, 125));
  });
});

describe("the kernel driver's pools", () => {
  const folder = new TemporaryFolder();
  afterAll(() => folder[Symbol.dispose]());
  const device = folder.file("0000:c5:00.0");
  mkdirSync(device);
  for (const [name, bytes] of Object.entries({
    vram_total: 4 * GIB,
    vram_used: GIB,
    gtt_total: 96 * GIB,
    gtt_used: 2 * GIB,
  }))
    writeFileSync(`${device}/mem_info_${name}`, `${bytes}\n`);

  it("are read from the folder of the PCI address", () => {
    expect(memoryPools("0000:C5:00.0", folder.path)).toEqual({ vram: amount(4, 3), gtt: amount(96, 94) });
  });

  it("are unknown for another device, a broken file, and what is no address", () => {
    expect(memoryPools("0000:c6:00.0", folder.path)).toBeUndefined();
    expect(memoryPools("../c5", folder.path)).toBeUndefined();
    writeFileSync(`${device}/mem_info_gtt_total`, "many\n");
    expect(memoryPools("0000:c5:00.0", folder.path)).toBeUndefined();
  });
});
