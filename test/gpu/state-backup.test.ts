// A step whose BLAS matmuls are wrong or fail is repeated without the BLAS library: recurrent states that it has overwritten
// must be those from before it.

import { afterAll, beforeAll, expect, it } from "vitest";
import { openGpuBackend } from "../../src/backends/gpu/backend.js";
import { kvShapeOf } from "../../src/graph/program.js";
import { hiddenOf, inputTable, type ProgramCase, randomWeight, runSteps } from "../conformance/harness.js";
import { ROWS, stepOfRuns } from "../conformance/recurrent-case.js";
import { Dice } from "../support/dice.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { BLAS_LIBRARY_VARIABLE, buildFakeLibrary, fakeLibraryCompiler, oneByOne } from "./blas/fake-library.js";
import { emulatedHip } from "./emulated-hip.js";
import { describeEmulator } from "./emulator/build.js";
import { watchDriver } from "./watched-device.js";

const WIDTH = 64;
const TAPS = 4;
/** Enough for the BLAS library. */
const TOKENS = 400;

const CASE: ProgramCase = {
  vocabularySize: ROWS,
  kv: kvShapeOf([], [(TAPS - 1) * WIDTH]),
  stateSlots: 2,
  weights: {
    inputs: inputTable(new Dice(1), WIDTH, ROWS),
    "matmul.weight": randomWeight(new Dice(2), "F16", [WIDTH, WIDTH], 1 / 8),
    "conv.weight": randomWeight(new Dice(3), "F32", [TAPS, WIDTH]),
  },
  build: (graph) => {
    const input = graph.matmul(graph.embed("inputs", WIDTH, ROWS), "matmul", { inputs: WIDTH, outputs: WIDTH });
    const weight = graph.table("conv.weight", [TAPS, WIDTH]);
    const out = graph.emit("conv", { kind: "causal-conv", state: 0, input, weight });
    return { hidden: graph.selectRows(out, "outputs") };
  },
};

/** The second step overwrites the state that it reads. */
const STEPS = [
  stepOfRuns([{ tokens: 5, first: 0, writes: { "-1": 0 } }]),
  stepOfRuns([{ tokens: TOKENS, first: 5, position: 5, read: 0, writes: { "-1": 0 } }]),
  stepOfRuns([{ tokens: 1, first: 7, position: 5 + TOKENS, read: 0, writes: { 0: 0 } }]),
];

const folder = new TemporaryFolder();
const library = folder.file("matrix-library.so");
beforeAll(() => buildFakeLibrary(library));
afterAll(() => folder[Symbol.dispose]());

async function computed(environment: Readonly<Record<string, string>>): Promise<{
  readonly rows: readonly Float32Array[];
  readonly notices: readonly string[];
}> {
  const { driver, compiler: kernels } = emulatedHip("wave-32", { waveSize: 32 });
  Object.assign(process.env, environment);
  try {
    await using backend = openGpuBackend({
      driver: watchDriver(driver, oneByOne),
      compiler: kernels,
      name: "hip",
      backendOptions: {},
    });
    const rows = await runSteps(backend, CASE, STEPS);
    return { rows: rows.map((each) => hiddenOf(each, WIDTH)), notices: backend.notices() };
  } finally {
    for (const name of Object.keys(environment)) delete process.env[name];
  }
}

describeEmulator("steps with recurrent states", () => {
  it.skipIf(fakeLibraryCompiler === undefined).each([{ FAKE_BLAS_WRONG: "zeros" }, { FAKE_BLAS_FAIL: "multiply" }])(
    "are repeated from the states before them if the BLAS library gives %o (needs g++ or clang++ for the stand-in)",
    async (fault) => {
      const alone = await computed({ [BLAS_LIBRARY_VARIABLE]: "/nowhere/libhipblaslt.so" });
      const repeated = await computed({ [BLAS_LIBRARY_VARIABLE]: library, ...(fault as Record<string, string>) });
      expect(repeated.notices.join("\n")).toMatch(/BLAS/i);
      expect(repeated.rows).toEqual(alone.rows);
    },
  );
});
