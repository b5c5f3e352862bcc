import { expect, it } from "vitest";
import { readAssemblerLog } from "./nvcc.js";

const LOG = `ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'norm_half' for 'sm_90a'
ptxas info    : Function properties for norm_half
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 64 bytes smem
ptxas info    : Compile time = 12.3 ms
ptxas info    : Compiling entry function 'gemm' for 'sm_90a'
ptxas info    : Function properties for gemm
    80 bytes stack frame, 76 bytes spill stores, 92 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 80 bytes cumulative stack size
`;

it("reads what the assembler says of each kernel", () => {
  expect(readAssemblerLog(LOG)).toEqual([
    { name: "norm_half", vectorRegisters: 40, sharedBytes: 64, stackBytes: 0, spilledBytes: 0 },
    { name: "gemm", vectorRegisters: 255, sharedBytes: 0, stackBytes: 80, spilledBytes: 76 },
  ]);
});

it("rejects a log without kernels", () => {
  expect(() => readAssemblerLog("ptxas info : 0 bytes gmem")).toThrow(/names no kernels/);
});
