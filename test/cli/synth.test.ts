// `rocmforge synth`: models of real shapes with random weights.

import { readdirSync, readFileSync, statSync } from "node:fs";
import { afterAll, describe, expect, it } from "vitest";
import { synthPlan } from "../../src/cli/synth/model-plan.js";
import { type MixName, MIX_NAMES } from "../../src/cli/synth/type-mix.js";
import { encodeGguf, writeGguf } from "../../src/gguf/writer.js";
import { loadModel } from "../../src/index.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { complaints, rocmforge } from "./command-line.js";
import { SMALL_SHAPE } from "./small-shape.js";

const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());

describe("the file", () => {
  it("has the requested shape and type, and states them", async () => {
    const path = folder.file("tiny.gguf");
    const finished = await rocmforge([
      "synth",
      "--shape",
      "tinyllama",
      "--type",
      "q2_k",
      "--layers",
      "1",
      "--out",
      path,
      "--json",
    ]);
    expect(finished.status).toBe(0);
    const result = JSON.parse(finished.stdout) as { readonly sizeBytes: number };
    expect(result).toMatchObject({ path, shape: "tinyllama", type: "Q2_K", seed: 1, layers: 1, tensors: 12 });
    expect(statSync(path).size).toBe(result.sizeBytes);
    expect(readdirSync(folder.path)).toEqual(["tiny.gguf"]);
    const inspected = await rocmforge(["inspect", path, "--json"]);
    expect(JSON.parse(inspected.stdout)).toMatchObject({
      architecture: { name: "llama", supported: true },
      tokenizer: { model: "llama", vocabularySize: 32_000 },
    });
  });

  it("is the same for the same seed and another for another", () => {
    const make = (seed: number): Uint8Array => encodeGguf(synthPlan("small", SMALL_SHAPE, { mix: "Q4_K_M", seed }));
    expect(Buffer.compare(make(1), make(1))).toBe(0);
    expect(Buffer.compare(make(1), make(2))).not.toBe(0);
  });

  it.each(MIX_NAMES)("in %s runs and keeps its numbers finite and lively", async (mix: MixName) => {
    const path = folder.file(`${mix}.gguf`);
    await writeGguf(path, synthPlan("small", SMALL_SHAPE, { mix, seed: 3 }));
    await using model = await loadModel(path, { backend: "reference" });
    const logits = await model.logits(Int32Array.from([1, 300, 400, 500]));
    const last = logits.subarray(3 * 1024);
    const size = Math.sqrt(last.reduce((sum, value) => sum + value * value, 0) / last.length);
    expect(logits.every(Number.isFinite)).toBe(true);
    expect(size).toBeGreaterThan(0.05);
    expect(size).toBeLessThan(5);
  });

  it("stops when it is interrupted, and leaves no file behind", async () => {
    using own = new TemporaryFolder();
    let chunks = 0;
    const beforeChunk = (): void => {
      if (++chunks === 5) throw new Error("enough");
    };
    await expect(
      writeGguf(own.file("half.gguf"), synthPlan("small", SMALL_SHAPE, { mix: "F16", seed: 1, beforeChunk })),
    ).rejects.toThrow(/could not be written/);
    expect(readdirSync(own.path)).toEqual([]);
  });
});

describe("rejects", () => {
  it.each([
    [["--type", "Q4_0", "--out", "x.gguf"], /--shape: expected one of llama3-1b, .*, found nothing/],
    [["--shape", "llama3-1", "--out", "x.gguf"], /--shape: .* did you mean llama3-1b\?/],
    [["--shape", "tinyllama", "--type", "Q4_KM", "--out", "x.gguf"], /--type: .* did you mean Q4_K_M\?/],
    [["--shape", "tinyllama"], /--out: expected a file to write/],
    [["--shape", "tinyllama", "--layers", "0", "--out", "x.gguf"], /--layers: expected a whole number from 1/],
  ])("a wrong command line: %j", async (args, message) => {
    const finished = await rocmforge(["synth", ...args], { cwd: folder.path });
    expect(finished.status).toBe(2);
    expect(complaints(finished)).toMatch(message);
  });

  it("a folder that is not there, with one line", async () => {
    const finished = await rocmforge([
      "synth",
      "--shape",
      "tinyllama",
      "--layers",
      "1",
      "--out",
      folder.file("no/such/file.gguf"),
    ]);
    expect(finished.status).toBe(1);
    expect(complaints(finished)).toMatch(/^rocmforge: .*\n$/);
    expect(() => readFileSync(folder.file("no/such/file.gguf"))).toThrow(/ENOENT/);
  });
});
