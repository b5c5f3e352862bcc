// Common mistakes with files, machines and options: one line each, which says what is wrong and what to do.

import { spawnSync } from "node:child_process";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { str } from "../../src/gguf/entry.js";
import { writeGguf } from "../../src/gguf/writer.js";
import { heldOutExcerpt } from "../support/held-out-excerpt.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { COMMAND_LINE, complaints, rocmforge, SMALL_MODEL } from "./command-line.js";

describe("files", () => {
  it.each<[what: string, bytes: string, line: RegExp]>([
    [
      "a Git LFS pointer",
      "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 7\n",
      /model\.gguf: expected a GGUF model, found a Git LFS pointer .*`git lfs pull`/,
    ],
    ["a web page", "<!doctype html><title>Not found</title>", /found a web page \(HTML\); download the file itself/],
  ])("rejects %s, whatever the command", async (_what, bytes, line) => {
    using folder = new TemporaryFolder();
    writeFileSync(folder.file("model.gguf"), bytes);
    for (const args of [
      ["inspect", folder.file("model.gguf")],
      ["generate", "-m", folder.file("model.gguf"), "-p", "a"],
    ]) {
      const finished = await rocmforge(args);
      expect(finished).toMatchObject({ status: 1, stdout: "" });
      expect(complaints(finished)).toMatch(line);
      expect(complaints(finished)).toMatch(/^rocmforge: [^\n]+\n$/);
    }
  });

  it("shows what a file without a language model has, and does not run it", async () => {
    using folder = new TemporaryFolder();
    const path = folder.file("adapter.gguf");
    await writeGguf(path, {
      metadata: [str("general.type", "adapter"), str("general.architecture", "llama")],
      tensors: [{ name: "blk.0.attn_q.weight.lora_a", type: "F32", shape: [8], data: "sparse" }],
    });
    expect((await rocmforge(["plan", "-m", path])).stderr).toMatch(
      /^rocmforge: \[model\] .*adapter\.gguf: expected a language model, found a LoRA adapter; merge it/,
    );
    const inspected = await rocmforge(["inspect", path]);
    expect(inspected).toMatchObject({ status: 0, stderr: "" });
    expect(inspected.stdout).toContain("found a LoRA adapter");
  });

  it.skipIf(process.platform === "win32")("rejects links that lead in a circle (needs symbolic links)", async () => {
    using folder = new TemporaryFolder();
    symlinkSync(folder.file("a.gguf"), folder.file("a.gguf"));
    for (const args of [
      ["inspect", folder.file("a.gguf")],
      ["generate", "-f", folder.file("a.gguf")],
    ]) {
      expect((await rocmforge(args)).stderr).toMatch(
        /its symbolic links form a loop \(ELOOP\); check where they point/,
      );
    }
  });

  it("expands ~ if no shell has", async () => {
    using folder = new TemporaryFolder();
    mkdirSync(folder.file("models"));
    symlinkSync(SMALL_MODEL, folder.file("models/small.gguf"));
    const env = { ...process.env, HOME: folder.path, USERPROFILE: folder.path };
    for (const args of [
      ["plan", "--model=~/models/small.gguf"],
      ["inspect", "~/models/small.gguf"],
      ["tokenize", "-m", "~/models/small.gguf", "-p", "a"],
    ]) {
      const { status, stderr } = spawnSync(process.execPath, [COMMAND_LINE, ...args], { env, encoding: "utf8" });
      expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    }
  });
});

describe("options", () => {
  it.each<[args: readonly string[], line: RegExp]>([
    [["plan", "--kv-type", "q5"], /^rocmforge: \[plan\] --kv-type: expected one of .*, found q5$/m],
    [
      ["generate", "-p", "a", "--backend", "cpu", "--device", "1"],
      /^rocmforge: \[generate\] --device: expected none, because this backend has no devices, found 1$/m,
    ],
    [
      ["generate", "-p", "a", "--mirostat", "1"],
      /^rocmforge: \[generate\] --mirostat: expected 0 \(off\) or 2, found 1$/m,
    ],
  ])("are called as they were typed: %j", async (args, line) => {
    const finished = await rocmforge([...args, "-m", SMALL_MODEL]);
    expect(finished).toMatchObject({ status: 2, stdout: "" });
    expect(complaints(finished)).toMatch(line);
  });

  it("are called so in advice, too", async () => {
    const finished = await rocmforge(["generate", "-m", SMALL_MODEL, "-p", "Once", "--ctx", "16777216"]);
    expect(complaints(finished)).toMatch(/a context of \d+ tokens would fit \(--ctx \d+\)/);
    expect(complaints(finished)).not.toMatch(/contextTokens|kvCacheType/);
    const long = await rocmforge(["generate", "-m", SMALL_MODEL, "-f", "-", "--ctx", "16"], {
      input: heldOutExcerpt(),
    });
    expect(complaints(long)).toMatch(/larger context \(--ctx\)/);
  });
});

describe.skipIf(process.platform === "win32")(
  "a machine at its limits (skipped on Windows, which has no ulimit)",
  () => {
    it.each([32, 44])("rejects to go on with %d open files, and says how to get more", (limit) => {
      const { status, stdout, stderr } = spawnSync(
        "sh",
        [
          "-c",
          `ulimit -n ${limit}; exec "$0" "$@"`,
          process.execPath,
          COMMAND_LINE,
          "generate",
          "-m",
          SMALL_MODEL,
          "-p",
          "Once",
          "-n",
          "1",
        ],
        { encoding: "utf8" },
      );
      expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
      expect(stderr).toMatch(/too many open files/);
      expect(stderr).toMatch(/raise the limit .*`ulimit -n 4096`/);
      expect(stderr).not.toMatch(/mistake in rocmforge|^\s+at /m);
    });
  },
);
