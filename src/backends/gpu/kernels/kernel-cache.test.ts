import { chmodSync, readdirSync, readFileSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { TemporaryFolder } from "../../../../test/support/temporary-folder.js";
import { kernelCacheFolder } from "../../cache-folder.js";
import { KernelCache } from "./kernel-cache.js";

const KEY = "ab".repeat(32);
const OTHER_KEY = "cd".repeat(32);
const CODE = Uint8Array.from({ length: 1000 }, (_, index) => index % 251);

describe("KernelCache", () => {
  it("gives back what was written, and nothing for another key", async () => {
    using folder = new TemporaryFolder();
    const cache = new KernelCache(folder.file("new/kernels"));
    expect(await cache.read(KEY)).toBeUndefined();
    await cache.write(KEY, CODE);
    expect(await cache.read(KEY)).toEqual(Buffer.from(CODE));
    expect(await cache.read(OTHER_KEY)).toBeUndefined();
    expect(readdirSync(cache.folder)).toEqual([`${KEY}.kernel`]);
  });

  it("rejects an entry with any byte changed, cut or added", async () => {
    using folder = new TemporaryFolder();
    const cache = new KernelCache(folder.path);
    await cache.write(KEY, CODE);
    const path = join(folder.path, `${KEY}.kernel`);
    const whole = readFileSync(path);
    for (const offset of [0, 7, 8, 39, 64, whole.length - 1]) {
      const changed = Buffer.from(whole);
      changed[offset] ^= 1;
      writeFileSync(path, changed);
      expect(await cache.read(KEY), `byte ${offset}`).toBeUndefined();
    }
    for (const length of [0, 8, 64, whole.length - 1]) {
      writeFileSync(path, whole.subarray(0, length));
      expect(await cache.read(KEY), `${length} bytes`).toBeUndefined();
    }
    writeFileSync(path, Buffer.concat([whole, Buffer.of(0)]));
    expect(await cache.read(KEY)).toBeUndefined();
    await cache.write(KEY, CODE);
    expect(await cache.read(KEY)).toEqual(Buffer.from(CODE));
  });

  it("drops what was used longest ago when the folder is full, and leaves other files alone", async () => {
    using folder = new TemporaryFolder();
    const keys = Array.from({ length: 10 }, (_, index) => `${index}`.repeat(64));
    const filler = new KernelCache(folder.path);
    for (const [index, key] of keys.entries()) {
      await filler.write(key, CODE);
      const time = new Date(Date.now() - (20 - index) * 60_000);
      utimesSync(join(folder.path, `${key}.kernel`), time, time);
    }
    // Of a kernel, and of the compilers that known-compilers.ts writes down in the same folder.
    const leftovers = [`${KEY}.kernel.0a0b.tmp`, "compilers.json.0a0b.tmp"];
    writeFileSync(folder.file("notes.txt"), "x".repeat(100_000));
    for (const leftover of leftovers) {
      writeFileSync(folder.file(leftover), "half");
      utimesSync(folder.file(leftover), new Date(0), new Date(0));
    }
    const cache = new KernelCache(folder.path, { maxFolderBytes: 6000 });
    await cache.write(OTHER_KEY, CODE);
    const left = new Set(readdirSync(folder.path));
    expect(left.has("notes.txt")).toBe(true);
    expect(leftovers.filter((leftover) => left.has(leftover))).toEqual([]);
    expect(left.has(`${OTHER_KEY}.kernel`)).toBe(true);
    expect(left.has(`${keys[0]}.kernel`)).toBe(false);
    expect(left.has(`${keys[9]}.kernel`)).toBe(true);
    expect([...left].filter((name) => name.endsWith(".kernel")).length * (CODE.length + 64)).toBeLessThanOrEqual(4500);
  });

  it("works without a folder that can be used, and says so once", async () => {
    using folder = new TemporaryFolder();
    writeFileSync(folder.file("file"), "");
    const cache = new KernelCache(folder.file("file/kernels"));
    const warnings: string[] = [];
    const listen = (warning: Error): void => void warnings.push(warning.message);
    process.on("warning", listen);
    try {
      await cache.write(KEY, CODE);
      await cache.write(OTHER_KEY, CODE);
      expect(await cache.read(KEY)).toBeUndefined();
      await new Promise((resolve) => setImmediate(resolve));
    } finally {
      process.off("warning", listen);
    }
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toMatch(/cannot be stored in .*set ROCMFORGE_KERNEL_CACHE to another folder/);
  });

  it("keeps entries from other users", async () => {
    using folder = new TemporaryFolder();
    chmodSync(folder.path, 0o755);
    const cache = new KernelCache(folder.file("kernels"));
    await cache.write(KEY, CODE);
    for (const path of [cache.folder, join(cache.folder, `${KEY}.kernel`)]) expect(statSync(path).mode & 0o077).toBe(0);
  });
});

describe("kernelCacheFolder", () => {
  it("takes the variable, then the user's caches, and no relative path of theirs", () => {
    expect(kernelCacheFolder({ ROCMFORGE_KERNEL_CACHE: "/here", XDG_CACHE_HOME: "/caches" })).toBe("/here");
    expect(kernelCacheFolder({ ROCMFORGE_KERNEL_CACHE: "", XDG_CACHE_HOME: "/caches" })).toBe(
      "/caches/rocmforge/kernels",
    );
    expect(kernelCacheFolder({ XDG_CACHE_HOME: "caches" })).toMatch(/\/\.cache\/rocmforge\/kernels$/);
  });
});
