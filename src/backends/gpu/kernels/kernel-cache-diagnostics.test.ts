import { utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { TemporaryFolder } from "../../../../test/support/temporary-folder.js";
import { examineKernelFolder } from "./kernel-cache-diagnostics.js";
import { KernelCache } from "./kernel-cache.js";

const DAY_MS = 86_400_000;
const CODE = new Uint8Array(1000).fill(7);
const keyOf = (digit: number): string => String(digit).repeat(64);

it("tells kernels that can be used from those that cannot or were not for a long time", async () => {
  using folder = new TemporaryFolder();
  const cache = new KernelCache(folder.path);
  for (const digit of [1, 2, 3]) await cache.write(keyOf(digit), CODE);
  const pathOf = (name: string): string => join(folder.path, name);
  writeFileSync(pathOf(`${keyOf(4)}.kernel`), "damaged");
  writeFileSync(pathOf(`${keyOf(5)}.kernel.0a0b.tmp`), "half");
  writeFileSync(pathOf(`${keyOf(6)}.kernel.0a0b.tmp`), "being written");
  writeFileSync(pathOf("compilers.json"), "{}");
  const now = Date.now();
  const age = (name: string, days: number): void =>
    utimesSync(pathOf(name), new Date(now - days * DAY_MS), new Date(now - days * DAY_MS));
  age(`${keyOf(2)}.kernel`, 89);
  age(`${keyOf(3)}.kernel`, 91);
  age(`${keyOf(5)}.kernel.0a0b.tmp`, 1);
  age("compilers.json", 400);
  const { kernels, useless, sizeBytes } = examineKernelFolder(folder.path, now);
  expect(kernels).toBe(2);
  expect(sizeBytes).toBeGreaterThan(3000);
  expect(Object.fromEntries(useless.map(({ path, why }) => [path.slice(folder.path.length + 1), why]))).toEqual({
    [`${keyOf(3)}.kernel`]: "unused",
    [`${keyOf(4)}.kernel`]: "damaged",
    [`${keyOf(5)}.kernel.0a0b.tmp`]: "unfinished",
  });
});

it("takes a folder that does not exist for an empty one", () => {
  using folder = new TemporaryFolder();
  expect(examineKernelFolder(folder.file("none"))).toMatchObject({ kernels: 0, sizeBytes: 0, useless: [] });
});
