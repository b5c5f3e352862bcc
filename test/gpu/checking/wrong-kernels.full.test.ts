// More wrong kernels, at the other wave size, and no alarm for any family of models whose kernels are right.

import { afterAll, beforeEach, expect, it, vi } from "vitest";
import { writeGguf } from "../../../src/gguf/writer.js";
import { familyModel } from "../../conformance/models/family-model.js";
import { FAMILY_NAMES, familyCase } from "../../conformance/models/family-shapes.js";
import { TemporaryFolder } from "../../support/temporary-folder.js";
import { describeEmulator } from "../emulator/build.js";
import { CheckedDevices, type WrongKernel } from "./wrong-kernels.js";

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
  { family: "sum of experts", model: "experts", fault: "matmul/expert-sum:dot" },
  { family: "router", model: "experts", fault: "matmul/router:block" },
  { family: "attention of decoding", model: "dense", fault: "attention/decode:block" },
  { family: "attention of prompts", model: "dense", fault: "attention/tiled:block" },
  { family: "RoPE and KV cache", model: "dense", fault: "attention/rope:block" },
  { family: "embeddings", model: "dense", fault: "rows/embed:block" },
  { family: "norms", model: "dense", fault: "rows/quantize:block" },
  { family: "delta net", model: "hybrid", fault: "recurrent/delta-net:block" },
  { family: "convolution", model: "hybrid", fault: "recurrent/conv:block" },
  { family: "GEMV of plain floats", model: "hybrid", fault: "matmul/gemv-float:block" },
];

describeEmulator("wrong kernels", () => {
  it.each(WRONG_KERNELS)("$family: $fault is named and replaced at the other wave size", async ({ model, fault }) => {
    const { text, notices } = await devices.generate(model, { waveSize: 64 });
    expect(notices).toEqual([]);
    const checked = await devices.generate(model, { fault, waveSize: 64 });
    expect(checked.notices.length).toBeGreaterThan(0);
    for (const notice of checked.notices) expect(notice).toContain(`kernels/${fault.split(":")[0]}.hip`);
    expect(checked.text).toBe(text);
  });

  it.each(FAMILY_NAMES)("%s passes", async (family) => {
    const { seed, shape } = familyCase(family, 0);
    const path = folder.file(`${family.replaceAll(/\W+/g, "-")}.gguf`);
    await writeGguf(path, familyModel(seed, shape));
    for (const waveSize of [32, 64] as const) {
      const { notices, checks } = await devices.generateFrom(path, { waveSize });
      expect(notices).toEqual([]);
      expect(checks).toBeGreaterThan(0);
    }
    expect(warnings).not.toHaveBeenCalled();
  });
});
