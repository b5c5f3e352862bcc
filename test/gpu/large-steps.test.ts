// Prefill of several hundred tokens: by this package's own GEMM kernels, and by a stand-in for the BLAS library, both as
// close to `reference` as f16 inputs allow.

import { afterAll, beforeAll, expect, it } from "vitest";
import type { Backend } from "../../src/backends/contract.js";
import { openGpuBackend } from "../../src/backends/gpu/backend.js";
import { ReferenceBackend } from "../../src/backends/reference/backend.js";
import { GgufLoader } from "../../src/loader/gguf-loader.js";
import { ExecutionPlan } from "../../src/plan/execution-plan.js";
import { describeEmulator } from "./emulator/build.js";
import { distance } from "../conformance/models/log-probabilities.js";
import { randomTokens } from "../conformance/models/random-model.js";
import { FULL_RUN } from "../support/full-run.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import {
  askedMatmuls,
  BLAS_LIBRARY_VARIABLE,
  buildFakeLibrary,
  fakeLibraryCompiler,
  oneByOne,
} from "./blas/fake-library.js";
import { emulatedHip } from "./emulated-hip.js";
import { VOCABULARY, writeModel } from "./random-models.js";
import { watchDriver } from "./watched-device.js";

const TOKENS = 400;
const WATCHED = 32;
/** As in test/conformance/models.test.ts. */
const LARGEST_DIVERGENCE = 0.01;

const folder = new TemporaryFolder();
const path = folder.file("model.gguf");
const library = folder.file("matrix-library.so");
beforeAll(async () => {
  await writeModel(path, {
    architecture: "qwen2",
    types: ["Q4_K", "Q6_K", "F16"],
    context: 512,
    biases: ["attn_q", "attn_k", "attn_v"],
  });
  buildFakeLibrary(library);
});
afterAll(() => folder[Symbol.dispose]());

/** The logits of the last positions, after steps as large as the backend takes them. */
async function logitsOf(backend: Backend): Promise<Float32Array> {
  await using _ = backend;
  await using loader = await GgufLoader.open(path);
  const plan = ExecutionPlan.fromLoader(loader, backend, { contextTokens: 512, blockTokens: 16 });
  using cache = plan.createKvCache();
  const tokens = randomTokens(3, TOKENS);
  const found = new Float32Array(WATCHED * VOCABULARY);
  for (let start = 0; start < TOKENS; start += backend.maxStepTokens) {
    const positions = Int32Array.from(
      { length: Math.min(backend.maxStepTokens, TOKENS - start) },
      (_none, index) => start + index,
    );
    const outputs = [...positions.keys()].filter((row) => positions[row] >= TOKENS - WATCHED);
    const blockTables = [Int32Array.from({ length: 32 }, (_none, block) => 31 - block)];
    const step = {
      tokens: tokens.subarray(start, start + positions.length),
      positions,
      sequenceOffsets: Int32Array.of(0, positions.length),
      blockTables,
    };
    const rows = await plan.step(
      { ...step, outputs: outputs.map((row) => ({ row, want: { kind: "logits" } })) },
      cache,
    );
    for (const [index, row] of rows.entries()) {
      if (row.kind !== "logits") throw new Error(`expected logits, found ${row.kind}`);
      found.set(row.logits, (positions[outputs[index]] - TOKENS + WATCHED) * VOCABULARY);
    }
  }
  return found;
}

let expected: Float32Array;
let alone: Promise<Computed> | undefined;

interface Computed {
  readonly logits: Float32Array;
  readonly divergence: number;
  readonly notices: readonly string[];
}

/** `environment` says how the stand-in misbehaves, and whether it is checked. */
async function computed(variable: string, environment: Readonly<Record<string, string>> = {}): Promise<Computed> {
  const { driver, compiler: kernels } = emulatedHip("wave-32", { waveSize: 32 });
  Object.assign(process.env, { [BLAS_LIBRARY_VARIABLE]: variable, ...environment });
  try {
    const backend = openGpuBackend({
      driver: watchDriver(driver, oneByOne),
      compiler: kernels,
      name: "hip",
      backendOptions: {},
    });
    const logits = await logitsOf(backend);
    return { logits, divergence: distance(logits, expected, VOCABULARY).divergence, notices: backend.notices() };
  } finally {
    for (const name of [BLAS_LIBRARY_VARIABLE, ...Object.keys(environment)]) delete process.env[name];
  }
}

/** What is computed without a BLAS library. */
function computedAlone(): Promise<Computed> {
  alone ??= computed("/nowhere/libhipblaslt.so");
  return alone;
}

describeEmulator("steps of many tokens", () => {
  beforeAll(async () => {
    expected = await logitsOf(new ReferenceBackend());
  });

  it("are computed by GEMM kernels without a BLAS library", async () => {
    expect((await computedAlone()).divergence).toBeLessThan(LARGEST_DIVERGENCE);
  });

  it.skipIf(fakeLibraryCompiler === undefined)(
    "are left to a BLAS library if there is one (needs g++ or clang++ for the stand-in)",
    async () => {
      const { divergence, notices } = await computed(library);
      expect(divergence).toBeLessThan(LARGEST_DIVERGENCE);
      expect(notices).toEqual([]);
      expect(askedMatmuls(library)).toBeGreaterThan(3);
    },
  );

  it.skipIf(fakeLibraryCompiler === undefined).each(FULL_RUN ? ["zeros", "nan", "nothing", "tile"] : ["tile"])(
    "are right, bit for bit as without it, if a BLAS library computes wrongly (%s)",
    async (wrong) => {
      const { logits, notices } = await computed(library, { FAKE_BLAS_WRONG: wrong });
      expect(notices).toEqual([
        expect.stringMatching(
          /the BLAS library is disabled: \d+ of \d+ samples of its matmuls were wrong .*; large matmuls run on this package's own kernels/,
        ),
      ]);
      expect(logits).toEqual((await computedAlone()).logits);
    },
  );

  it.skipIf(fakeLibraryCompiler === undefined)(
    "are wrong without the checks, or the test above would show nothing (needs g++ or clang++ for the stand-in)",
    async () => {
      const { divergence, notices } = await computed(library, {
        FAKE_BLAS_WRONG: "zeros",
        ROCMFORGE_GPU_CHECKS: "off",
      });
      expect(divergence > LARGEST_DIVERGENCE).toBe(true);
      expect(notices).toEqual([]);
    },
  );

  it.skipIf(fakeLibraryCompiler === undefined).each([
    ["multiply", FULL_RUN ? ["on", "off"] : ["off"]],
    ["layout", FULL_RUN ? ["on", "off"] : ["on"]],
  ] as const)("are computed without a library whose calls fail (%s), checked or not", async (call, ways) => {
    for (const checks of ways) {
      const { divergence, notices } = await computed(library, {
        FAKE_BLAS_FAIL: call,
        ROCMFORGE_GPU_CHECKS: checks,
      });
      expect(divergence).toBeLessThan(LARGEST_DIVERGENCE);
      expect(notices).toEqual([
        expect.stringMatching(/the BLAS library is disabled: .*hipblasLtMat\w+ returned 2 \(allocation failed\)/),
      ]);
    }
  });
});
