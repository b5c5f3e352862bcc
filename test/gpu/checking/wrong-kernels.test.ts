// Ten wrong kernels, one of each family: each is found before any text is delivered, is named, and is replaced by its next
// variant, which gives the right text.

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeEach, expect, it, vi } from "vitest";
import { TemporaryFolder } from "../../support/temporary-folder.js";
import { rocmforge } from "../../cli/command-line.js";
import { describeEmulator } from "../emulator/build.js";
import { remembered } from "../../support/remembered.js";
import { CheckedDevices, type SmallModel, type WrongKernel } from "./wrong-kernels.js";

const folder = new TemporaryFolder();
const devices = new CheckedDevices(folder);
afterAll(() => folder[Symbol.dispose]());
const warnings = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
beforeEach(() => void warnings.mockClear());
afterAll(() => warnings.mockRestore());

const WRONG_KERNELS: readonly WrongKernel[] = [
  { family: "GEMV", model: "dense", fault: "matmul/gemv:dot" },
  { family: "GEMM", model: "dense", fault: "matmul/gemm:block" },
  { family: "GEMV of experts", model: "experts", fault: "matmul/grouped-gemv:dot" },
  { family: "sum of experts", model: "experts", fault: "matmul/expert-sum:block" },
  { family: "attention of decoding", model: "dense", fault: "attention/decode:lane" },
  { family: "attention of prompts", model: "dense", fault: "attention/tiled:block" },
  { family: "RoPE and KV cache", model: "dense", fault: "attention/rope:block" },
  { family: "norms", model: "dense", fault: "rows/quantize:block" },
  { family: "outputs", model: "dense", fault: "rows/outputs:block" },
  { family: "recurrent", model: "hybrid", fault: "recurrent/delta-net:lane" },
];

/** What a device without faults gives; its kernels pass. */
const right = remembered(async (model: SmallModel) => {
  const { text, notices, checks } = await devices.generate(model);
  if (notices.length > 0 || checks === 0) throw new Error(`right kernels did not pass: ${notices.join("; ")}`);
  return text;
});

/** The record in a cache folder. */
function recordIn(cache: string): string {
  const name = readdirSync(cache).find((file) => /^device-[0-9a-f]+\.json$/.test(file));
  if (name === undefined) throw new TypeError("there is no record");
  return join(cache, name);
}

describeEmulator("wrong kernels", () => {
  it.each(WRONG_KERNELS)("$family: $fault is named and replaced", async ({ model, fault }) => {
    const expected = await right(model);
    expect(warnings).not.toHaveBeenCalled();
    const { text, notices, noticesBeforeText } = await devices.generate(model, { fault });
    const [file] = fault.split(":");
    expect(notices.length).toBeGreaterThan(0);
    expect(noticesBeforeText).toEqual(notices);
    for (const notice of notices) expect(notice).toContain(`kernels/${file}.hip`);
    expect(warnings).toHaveBeenCalledWith(expect.stringContaining(`kernels/${file}.hip`), {
      type: "RocmForgeWarning",
      code: "ROCMFORGE_WRONG_KERNEL",
    });
    expect(text).toBe(expected);
  });

  it("other parameters take the place of a variant that is wrong alone", async () => {
    // Only one of the parameters' values is broken.
    const { text, notices } = await devices.generate("dense", { fault: "matmul/gemv+ROWS=1:dot" });
    expect(notices).toHaveLength(1);
    expect(notices[0]).toMatch(/gemv_1 \(kernels\/matmul\/gemv\.hip with [^)]*ROWS=1 /);
    expect(notices[0]).toMatch(/replaced by matmul\/gemv\.hip with [^,]*ROWS=[24] /);
    expect(notices[0]).not.toContain("CAREFUL");
    expect(text).toBe(await right("dense"));
  });

  it("products of halves take the place of products of bytes", async () => {
    const architecture = "gfx1201";
    expect((await devices.generate("wide", { architecture })).notices).toEqual([]);
    // Compiled with few optimizations they are wrong too.
    const { text, notices } = await devices.generate("wide", { architecture, fault: "matmul/int8-gemm:block!" });
    expect(notices.length).toBeGreaterThan(0);
    for (const notice of notices) {
      expect(notice).toContain("kernels/matmul/int8-gemm.hip");
      expect(notice).toMatch(/replaced by [^,]*matmul\/gemm\.hip/);
    }
    // A card without products of bytes gives the same.
    expect(text).toBe(await right("wide"));
  });

  it("the next start finds in the record what to avoid, and checks nothing", async () => {
    const [fault, cache] = ["rows/outputs:block", devices.newCache()];
    const first = await devices.generate("dense", { fault, cache });
    const record = JSON.parse(readFileSync(recordIn(cache), "utf8")) as { readonly modules: Record<string, string> };
    expect(record.modules["rows/outputs "]).toBe("failed");
    expect(record.modules["rows/outputs CAREFUL=1"]).toBe("passed");
    const { stdout } = await rocmforge(["doctor"]);
    expect(stdout).toMatch(/the kernel rows\/outputs computes wrong results on hip 0 \(Emulated Radeon, driver HIP 6/);
    expect(stdout).toMatch(/\| hip 0: Emulated Radeon .*\| \d+ right, 1 wrong +\|/);
    warnings.mockClear();
    const second = await devices.generate("dense", { fault, cache });
    expect(second).toEqual({ text: first.text, notices: [], noticesBeforeText: [], checks: 0 });
    expect(warnings).not.toHaveBeenCalled();
    // A damaged record is none.
    writeFileSync(recordIn(cache), "{");
    const third = await devices.generate("dense", { fault, cache });
    expect(third.checks).toBeGreaterThan(0);
    expect(third.text).toBe(first.text);
  });

  it("a model is refused if no variant is right", async () => {
    const refused = devices.generate("dense", { fault: "rows/outputs:block!" });
    await expect(refused).rejects.toMatchObject({
      code: "GPU_WRONG_RESULTS",
      message: expect.stringContaining("choose_outputs"),
      details: { kernels: expect.stringContaining("choose_outputs"), identity: expect.stringContaining("gfx1100") },
    });
  });

  it("a model is refused if its weights are repacked wrongly, because they are on the device already", async () => {
    const refused = devices.generate("dense", { fault: "weights/repack:block" });
    await expect(refused).rejects.toMatchObject({
      code: "GPU_WRONG_RESULTS",
      message: expect.stringContaining("repack_rows"),
    });
  });

  it("nothing is compared if checks are off", async () => {
    const expected = await right("dense");
    vi.stubEnv("ROCMFORGE_GPU_CHECKS", "off");
    try {
      const fault = "matmul/gemv:dot";
      const { text, notices, checks } = await devices.generate("dense", { fault });
      expect({ notices, checks }).toEqual({ notices: [], checks: 0 });
      expect(text).not.toBe(expected);
    } finally {
      vi.unstubAllEnvs();
    }
  });
});
