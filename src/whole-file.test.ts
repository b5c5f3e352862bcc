// Files written whole or not at all, and what processes that were killed have left behind.

import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, it, vi } from "vitest";
import { TemporaryFolder } from "../test/support/temporary-folder.js";
import { temporaryName, whyNotWritten, writeWholeFile } from "./whole-file.js";

const write = (path: string, text = "new"): Promise<void> =>
  writeWholeFile("test", path, (handle) => handle.writeFile(text));
const isLinux = process.platform === "linux";

/** The number of a process that has ended. */
function deadPid(): number {
  const { pid } = spawnSync(process.execPath, ["-e", ""]);
  return pid;
}

function leave(
  folder: TemporaryFolder,
  owner: { readonly pid: number; readonly start: string },
  name = "model.gguf",
): string {
  const path = temporaryName(folder.file(name), owner);
  writeFileSync(path, "half");
  return path;
}

describe("writeWholeFile", () => {
  it("writes, replaces, and leaves nothing beside the file", async () => {
    using folder = new TemporaryFolder();
    await write(folder.file("a"), "old");
    await write(folder.file("a"));
    expect(readdirSync(folder.path)).toEqual(["a"]);
    expect(readFileSync(folder.file("a"), "utf8")).toBe("new");
  });

  it("flushes the file before it gets its name", async () => {
    using folder = new TemporaryFolder();
    const calls: string[] = [];
    await writeWholeFile("test", folder.file("a"), async (handle) => {
      const sync = handle.sync.bind(handle);
      vi.spyOn(handle, "sync").mockImplementation(async () => {
        calls.push(existsSync(folder.file("a")) ? "after the rename" : "before the rename");
        await sync();
      });
      await handle.writeFile("new");
    });
    expect(calls).toEqual(["before the rename"]);
  });

  it("keeps the old file and nothing else when writing fails", async () => {
    using folder = new TemporaryFolder();
    await write(folder.file("a"), "old");
    const failing = writeWholeFile("test", folder.file("a"), async (handle) => {
      await handle.writeFile("half");
      throw new Error("no more");
    });
    await expect(failing).rejects.toThrow("no more");
    expect(readdirSync(folder.path)).toEqual(["a"]);
    expect(readFileSync(folder.file("a"), "utf8")).toBe("old");
  });

  it.skipIf(process.platform === "win32")(
    "keeps permissions and follows links (skipped on Windows, which has neither)",
    async () => {
      using folder = new TemporaryFolder();
      await write(folder.file("real"), "old");
      chmodSync(folder.file("real"), 0o600);
      symlinkSync(folder.file("real"), folder.file("link"));
      await write(folder.file("link"));
      expect(readlinkSync(folder.file("link"))).toBe(folder.file("real"));
      expect(readFileSync(folder.file("real"), "utf8")).toBe("new");
      expect(statSync(folder.file("real")).mode & 0o777).toBe(0o600);
    },
  );

  it("rejects what is no file, and says why a folder that is missing cannot be written to", async () => {
    using folder = new TemporaryFolder();
    mkdirSync(folder.file("folder"));
    await expect(write(folder.file("folder"))).rejects.toMatchObject({ code: "FILE_WRITE" });
    const error = await write(folder.file("none/a")).catch((caught: unknown) => caught);
    expect(whyNotWritten(error)).toMatch(/^its folder does not exist \(ENOENT\)/);
  });
});

describe("temporary files of processes that are gone", () => {
  it("are removed by the next that writes there, whatever it writes", async () => {
    using folder = new TemporaryFolder();
    const left = leave(folder, { pid: deadPid(), start: "1" });
    await write(folder.file("other.json"));
    expect(existsSync(left)).toBe(false);
    expect(readdirSync(folder.path)).toEqual(["other.json"]);
  });

  it("are removed after a process was killed in mid-write", async () => {
    using folder = new TemporaryFolder();
    const program = `
      import { writeWholeFile } from ${JSON.stringify(new URL("../dist/whole-file.js", import.meta.url).href)};
      await writeWholeFile("test", ${JSON.stringify(folder.file("big"))}, async (handle) => {
        await handle.writeFile("half");
        console.log("writing");
        await new Promise((resolve) => setTimeout(resolve, 60_000));
      });`;
    const child = spawn(process.execPath, ["--input-type=module", "-e", program], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    await once(child.stdout, "data");
    expect(readdirSync(folder.path)).toHaveLength(1);
    await write(folder.file("beside"));
    expect(readdirSync(folder.path)).toHaveLength(2);
    child.kill("SIGKILL");
    await once(child, "close");
    await write(folder.file("beside"));
    expect(readdirSync(folder.path)).toEqual(["beside"]);
  });

  it.skipIf(!isLinux)("are distinguished from those of another process with the same id (needs /proc)", async () => {
    using folder = new TemporaryFolder();
    const left = leave(folder, { pid: process.pid, start: "1" });
    const own = temporaryName(folder.file("model.gguf"));
    writeFileSync(own, "being written");
    await write(folder.file("a"));
    expect([left, own].map((path) => existsSync(path))).toEqual([false, true]);
  });

  it("stay while their process runs, or if that is unknown and they are not a day old", async () => {
    using folder = new TemporaryFolder();
    const child = spawn(process.execPath, ["-e", "setTimeout(() => {}, 60_000)"], { stdio: "ignore" });
    await once(child, "spawn");
    await pause(10);
    const stat = isLinux ? readFileSync(`/proc/${child.pid}/stat`, "latin1") : "";
    const running = leave(folder, {
      pid: child.pid ?? 0,
      start: isLinux ? stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] : "0",
    });
    const elsewhere = folder.file(`model.gguf.rocmforge-00000000-${deadPid()}-1-0123456789ab.tmp`);
    const abandoned = folder.file("model.gguf.rocmforge-00000000-4711-1-ba9876543210.tmp");
    for (const path of [elsewhere, abandoned]) writeFileSync(path, "half");
    utimesSync(abandoned, new Date(0), new Date(0));
    await write(folder.file("a"));
    expect([running, elsewhere, abandoned].map((path) => existsSync(path))).toEqual([true, true, false]);
    child.kill("SIGKILL");
    await once(child, "close");
  });

  it("are the only ones that are touched", async () => {
    using folder = new TemporaryFolder();
    const pid = deadPid();
    const others = [
      "model.gguf.tmp",
      "model.gguf.0123456789ab.tmp",
      `model.gguf.rocmforge-x-${pid}-1-0123456789ab.tmp`,
      "notes.part",
    ];
    for (const name of others) writeFileSync(folder.file(name), "somebody's");
    const target = folder.file("precious");
    writeFileSync(target, "kept");
    // A link and a folder under a name of ours are not ours.
    if (process.platform !== "win32") symlinkSync(target, temporaryName(folder.file("m"), { pid, start: "1" }));
    mkdirSync(temporaryName(folder.file("m"), { pid, start: "2" }));
    const before = readdirSync(folder.path);
    await write(folder.file("a"));
    expect(readdirSync(folder.path)).toEqual([...before, "a"].toSorted());
    expect(readFileSync(target, "utf8")).toBe("kept");
  });
});
