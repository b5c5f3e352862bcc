// Ten wrong kernels, one of each family: each is found before the first token is delivered, named, and replaced by its next
// variant, which gives the right text.

import { afterAll, afterEach, expect, it, vi } from "vitest";
import { TemporaryFolder } from "../../support/temporary-folder.js";
import { describeEmulator } from "../emulator/build.js";
import { CheckedDevices, type WrongKernel } from "./wrong-kernels.js";

const folder = new TemporaryFolder();
const devices = new CheckedDevices(folder);
afterAll(() => folder[Symbol.dispose]());
afterEach(() => void vi.restoreAllMocks());

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

describeEmulator("wrong kernels", () => {
  it.each(WRONG_KERNELS)("$family: $fault is named and replaced", async ({ model, fault }) => {
    const warnings = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
    const right = await devices.generate(model);
    expect(right.notices).toEqual([]);
    expect(warnings).not.toHaveBeenCalled();
    const { text, notices } = await devices.generate(model, { fault });
    const [file] = fault.split(":");
    expect(notices.length).toBeGreaterThan(0);
    for (const notice of notices) expect(notice).toContain(`kernels/${file}.hip`);
    expect(warnings).toHaveBeenCalledWith(expect.stringContaining(`kernels/${file}.hip`), {
      type: "RocmForgeWarning",
      code: "ROCMFORGE_WRONG_KERNEL",
    });
    expect(text).toBe(right.text);
  });
});
