// That GEMM on NVIDIA's sm_90 does not wait for weights that it has just asked for: all loads of a loop have one scoreboard, so
// where they are issued decides how much of memory's latency is hidden, and only the machine code tells.

import { afterAll, describe, expect, it } from "vitest";
import { loadKernelSource } from "../../../../src/backends/gpu/kernels/kernel-source.js";
import { TemporaryFolder } from "../../../support/temporary-folder.js";
import { compileCubin, findNvcc } from "../nvcc.js";
import { report } from "../report.js";
import { NVIDIA_TARGETS } from "../targets.js";
import { hotKernels, type HotKernel, type HotStep } from "./hot-kernels.js";
import { loadWait, matrixLoop, readCubin } from "./nvidia-code.js";

const LIMIT_MS = 300_000;
const [, HOPPER] = NVIDIA_TARGETS;
/** Three waves share the issue slots of a quarter of a multiprocessor: this many instructions are half a microsecond. */
const LEAST_WAIT = 300;
/**
 * Four teams hide from each other what a ring of two slabs waits for. Measured on an H200 with Llama-3-8B's gate and up: 37.9 µs
 * with 64 tokens (a wait of 178 instructions, 4 bytes spilled), 44.0 with three teams, a ring of six and a long wait.
 */
const MEASURED_FASTER = ["gate and up, wide gemm Q4_K, 64 tokens"];

const decoding = (model: HotStep["model"], tokens: number, file: string): HotStep => ({
  model,
  mix: "Q4_K_M",
  tokens,
  longestRun: 1,
  longest: 512,
  files: { [file]: "matrix" },
});
const STEPS: readonly HotStep[] = [
  decoding("llama3-8b", 16, "matmul/wide-gemm"),
  decoding("llama3-8b", 64, "matmul/wide-gemm"),
  decoding("llama3-8b", 128, "matmul/wide-gemm"),
  decoding("qwen3-30b-a3b", 64, "matmul/grouped-gemm"),
];

const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());
const found = await findNvcc(folder);
const missing = "missing" in found ? found.missing : undefined;
if (missing !== undefined) report({ toolchain: "waits of sm_90", skipped: missing });

describe.skipIf(missing !== undefined)("GEMM on sm_90 (needs nvcc)", () => {
  it("waits for weights long after it has asked for them, and spills nothing", { timeout: LIMIT_MS }, async () => {
    const waits: Record<string, number | undefined> = {};
    const spilled: string[] = [];
    for (const hot of hotKernels(HOPPER, STEPS)) {
      const { code, kernels } = await compile(hot);
      const instructions = readCubin(code).get(hot.kernel);
      if (instructions === undefined) throw new TypeError(`there is no ${hot.kernel} in its module`);
      waits[hot.label] = loadWait(matrixLoop(instructions));
      if (kernels.some(({ spilledBytes }) => spilledBytes > 0)) spilled.push(hot.label);
    }
    expect(Object.keys(waits).length).toBeGreaterThan(8);
    const short = Object.keys(waits).filter((label) => (waits[label] ?? 0) < LEAST_WAIT);
    expect(short).toEqual(MEASURED_FASTER);
    expect(spilled).toEqual(MEASURED_FASTER);
  });
});

async function compile({ file, defines }: HotKernel): ReturnType<typeof compileCubin> {
  const { text } = loadKernelSource(file);
  return await compileCubin({ name: `${file}.hip`, source: text, defines, target: HOPPER }, folder);
}
