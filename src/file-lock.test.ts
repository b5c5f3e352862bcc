import {
  existsSync,
  mkdtempSync,
  readdirSync,
  rmdirSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { rmdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { ownerName } from "./process-owner.js";
import { FileLock } from "./file-lock.js";

let folder: string;
let target: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "rocmforge-test-"));
  target = join(folder, "blob.incomplete");
});

afterEach(() => rmSync(folder, { recursive: true }));

const lockOf = (owner: string): string => `${target}.lock-${owner}-0123456789ab`;

it("is held by one at a time, and leaves nothing behind", async () => {
  let holders = 0;
  let most = 0;
  const use = async (): Promise<void> => {
    await using _ = await FileLock.acquire(target);
    most = Math.max(most, ++holders);
    await new Promise((resolve) => setTimeout(resolve, 5));
    holders--;
  };
  await Promise.all(Array.from({ length: 6 }, use));
  expect(most).toBe(1);
  expect(readdirSync(folder)).toEqual([]);
});

it("is taken over from a process that has ended", async () => {
  writeFileSync(lockOf(ownerName({ pid: 2 ** 22 + 1, start: "1" })), "");
  writeFileSync(lockOf(ownerName({ pid: process.pid, start: "1" })), "");
  await using lock = await FileLock.tryAcquire(target);
  expect(lock).toBeDefined();
  expect(readdirSync(folder)).toHaveLength(1);
});

it("of another machine is respected while it is renewed", async () => {
  const other = lockOf("ffffffff-1-1");
  writeFileSync(other, "");
  expect(await FileLock.tryAcquire(target)).toBeUndefined();
  const old = new Date(Date.now() - 300_000);
  utimesSync(other, old, old);
  await using lock = await FileLock.tryAcquire(target);
  expect(lock).toBeDefined();
});

it("makes the folder again that its last holder has removed", async () => {
  const held = await FileLock.acquire(target);
  const waiting = FileLock.acquire(target);
  await held[Symbol.asyncDispose]();
  rmdirSync(folder);
  await using lock = await waiting;
  expect(lock).toBeDefined();
  expect(readdirSync(folder)).toHaveLength(1);
});

it("stops waiting when it is aborted", async () => {
  await using _ = await FileLock.acquire(target);
  const controller = new AbortController();
  let waits = 0;
  const waiting = FileLock.acquire(target, {
    signal: controller.signal,
    onWait: () => {
      if (++waits === 2) controller.abort();
    },
  });
  await expect(waiting).rejects.toThrow(/abort/i);
  expect(readdirSync(folder)).toHaveLength(1);
});

it("of another file with a similar name does not matter", async () => {
  await using _ = await FileLock.acquire(target);
  await using two = await FileLock.tryAcquire(join(folder, "blobXincomplete"));
  expect(two).toBeDefined();
});

it("is held by one at a time where every holder removes the folders", async () => {
  const [child, parent] = [join(folder, "parent", "child"), join(folder, "parent")];
  let holders = 0;
  let most = 0;
  const use = async (): Promise<void> => {
    for (let times = 0; times < 20; times++) {
      const lock = await FileLock.acquire(join(child, "blob.incomplete"));
      most = Math.max(most, ++holders);
      holders--;
      await lock[Symbol.asyncDispose]();
      await rmdir(child).catch(() => {});
      await rmdir(parent).catch(() => {});
    }
  };
  await Promise.all(Array.from({ length: 4 }, use));
  expect(most).toBe(1);
  expect(existsSync(parent)).toBe(false);
});

it("rejects a folder that cannot be made", async () => {
  symlinkSync(join(folder, "nowhere", "at-all"), join(folder, "link"));
  await expect(FileLock.acquire(join(folder, "link", "child", "blob.incomplete"))).rejects.toMatchObject({
    code: expect.stringMatching(/^E/),
  });
});
