// Figures of sysfs as amdgpu writes them, for a card with 24 GiB.

import { mkdirSync, writeFileSync } from "node:fs";
import { afterAll, describe, expect, it } from "vitest";
import { TemporaryFolder } from "../../../../../test/support/temporary-folder.js";
import { GttWatch } from "./gtt-spill.js";
import { memoryPools } from "./shared-memory.js";

const GIB = 2 ** 30;
const ADDRESS = "0000:03:00.0";

describe("GttWatch", () => {
  const folder = new TemporaryFolder();
  afterAll(() => folder[Symbol.dispose]());
  mkdirSync(folder.file(ADDRESS));
  const write = (vramUsedGib: number, gttUsedGib: number): void => {
    const figures = { vram_total: 24, vram_used: vramUsedGib, gtt_total: 62, gtt_used: gttUsedGib };
    for (const [name, size] of Object.entries(figures))
      writeFileSync(folder.file(`${ADDRESS}/mem_info_${name}`), `${Math.round(size * GIB)}\n`);
  };
  const read = (): ReturnType<typeof memoryPools> => memoryPools(ADDRESS, folder.file("."));

  it("says once that VRAM is full and GTT has grown", () => {
    write(1, 0.2);
    const watch = new GttWatch(read);
    expect(watch.look()).toBeUndefined();
    write(20, 0.5);
    expect(watch.look()).toBeUndefined();
    write(23.8, 3.2);
    expect(watch.look()).toMatch(/^3\.0 GiB .* host memory \(GTT\), because its 24\.0 GiB of VRAM are full/);
    write(23.9, 5);
    expect(watch.look()).toBeUndefined();
  });

  it("says nothing of pinned memory, of what was there before, or where the kernel does not tell", () => {
    write(10, 6);
    const watch = new GttWatch(read);
    write(10, 30);
    expect(watch.look(), "VRAM has room").toBeUndefined();
    write(23.9, 6.3);
    expect(watch.look(), "GTT has hardly grown").toBeUndefined();
    expect(new GttWatch(() => undefined).look()).toBeUndefined();
  });
});
