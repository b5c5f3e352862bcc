import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { defaultThreads } from "./threads.js";

const root = mkdtempSync(join(tmpdir(), "rocmforge-threads-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** A processor folder whose processors have the given siblings. */
function processors(name: string, siblings: readonly string[]): string {
  const folder = join(root, name);
  for (const [index, list] of siblings.entries()) {
    mkdirSync(join(folder, `cpu${index}`, "topology"), { recursive: true });
    writeFileSync(join(folder, `cpu${index}`, "topology", "thread_siblings_list"), `${list}\n`);
  }
  mkdirSync(join(folder, "cpufreq"), { recursive: true });
  return folder;
}

function quota(name: string, text: string): string {
  writeFileSync(join(root, name), text);
  return join(root, name);
}

const absent = join(root, "absent");

describe("defaultThreads", () => {
  it("counts cores, not hardware threads", () => {
    const processorFolder = processors("smt", ["0,2", "1,3", "0,2", "1,3"]);
    expect(defaultThreads({ processorFolder, quotaFile: absent, statusFile: absent, allowed: 4 })).toEqual({
      threads: 2,
      reason: "one per physical core",
    });
  });

  it("stays within a container's share", () => {
    const processorFolder = processors("eight", ["0", "1", "2", "3", "4", "5", "6", "7"]);
    const choose = (text: string): number =>
      defaultThreads({ processorFolder, quotaFile: quota("cpu.max", text), statusFile: absent, allowed: 8 }).threads;
    expect(choose("250000 100000\n")).toBe(3);
    expect(choose("10000 100000\n")).toBe(1);
    expect(choose("max 100000\n")).toBe(8);
    expect(choose("nonsense")).toBe(8);
  });

  it("stays within the processors this process may use", () => {
    const processorFolder = processors("four", ["0", "1", "2", "3"]);
    expect(defaultThreads({ processorFolder, quotaFile: absent, statusFile: absent, allowed: 2 })).toEqual({
      threads: 2,
      reason: "this process may use 2 of 4 cores",
    });
  });

  it("counts the cores of the processors it may run on, and none that is switched off", () => {
    const processorFolder = processors("confined", ["0,2", "1,3", "0,2", "1,3"]);
    mkdirSync(join(processorFolder, "cpu9"), { recursive: true });
    const choose = (list: string): number =>
      defaultThreads({
        processorFolder,
        quotaFile: absent,
        statusFile: quota("status", `Name:\tnode\nCpus_allowed_list:\t${list}\n`),
        allowed: 2,
      }).threads;
    expect(choose("0,2,9")).toBe(1);
    expect(choose("0-1")).toBe(2);
  });

  it("takes what it is allowed where nothing is known", () => {
    expect(defaultThreads({ processorFolder: absent, quotaFile: absent, statusFile: absent, allowed: 6 }).threads).toBe(
      6,
    );
  });
});
