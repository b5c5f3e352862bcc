// Cards and their memory, from folders as the kernel has them.

import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { afterAll, describe, expect, it } from "vitest";
import { TemporaryFolder } from "../../../test/support/temporary-folder.js";
import { memoryProblems } from "./known-problems.js";
import { type MachineReport, pciCards } from "./machine.js";

const GIB = 2 ** 30;

describe("memory of AMD's cards", () => {
  const folder = new TemporaryFolder();
  afterAll(() => folder[Symbol.dispose]());
  const problemsOf = (name: string, figures: Readonly<Record<string, number | string>>): readonly string[] => {
    const device = folder.file(`${name}/0000:03:00.0`);
    mkdirSync(device, { recursive: true });
    writeFileSync(`${device}/class`, "0x030000\n");
    writeFileSync(`${device}/vendor`, "0x1002\n");
    writeFileSync(`${device}/device`, "0x744c\n");
    symlinkSync("/sys/bus/pci/drivers/amdgpu", `${device}/driver`);
    for (const [figure, size] of Object.entries(figures))
      writeFileSync(`${device}/mem_info_${figure}`, `${typeof size === "number" ? Math.round(size * GIB) : size}\n`);
    const cards = pciCards(folder.file(name));
    expect(cards).toHaveLength(1);
    return memoryProblems({ machine: { cards } as MachineReport }).map(({ severity, what }) => `${severity}: ${what}`);
  };

  it("says nothing of a card with room", () => {
    expect(problemsOf("room", { vram_total: 24, vram_used: 20, gtt_total: 62, gtt_used: 3 })).toEqual([]);
  });

  it("warns of allocations in host memory", () => {
    const [problem] = problemsOf("spill", { vram_total: 24, vram_used: 23.9, gtt_total: 62, gtt_used: 3 });
    expect(problem).toMatch(/^warning: AMD 1002:744c: VRAM is full .* lie in host memory \(GTT\)/);
  });

  it("says what an integrated card may use", () => {
    const [problem] = problemsOf("shared", { vram_total: 0.5, vram_used: 0.4, gtt_total: 96, gtt_used: 2 });
    expect(problem).toMatch(/^note: AMD 1002:744c shares the host's memory/);
  });

  it("ignores what is no number", () => {
    expect(problemsOf("odd", { vram_total: "many", vram_used: 1, gtt_total: 2, gtt_used: 3 })).toEqual([]);
  });
});
