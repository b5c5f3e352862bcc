import { expect, it } from "vitest";
import type { Backend, CompiledProgram, OutputRow } from "../backends/contract.js";
import { ReferenceBackend } from "../backends/reference/backend.js";
import { describeVerification } from "../cli/verify-report.js";
import { GpuError } from "../errors.js";
import { FAMILY_KEYS } from "./suite.js";
import { type FamilyResult, verifyBackend } from "./verification.js";

/** `reference` with rows that were changed on their way out. */
class ChangedBackend extends ReferenceBackend {
  readonly #change: (row: OutputRow) => OutputRow;

  constructor(change: (row: OutputRow) => OutputRow) {
    super();
    this.#change = change;
  }

  override compile(...parameters: Parameters<ReferenceBackend["compile"]>): CompiledProgram {
    const program = super.compile(...parameters);
    const run = program.run.bind(program);
    program.run = async (...step) => (await run(...step)).map((row) => this.#change(row));
    return program;
  }
}

async function results(backend: Backend, families: FamilyResult["family"][]): Promise<readonly FamilyResult[]> {
  return await verifyBackend(backend, { oracle: new ReferenceBackend(), full: false, families });
}

it("passes what agrees", async () => {
  const [norms, outputs] = await results(new ReferenceBackend(), ["rms-norm", "outputs"]);
  expect(norms).toMatchObject({ passed: 4, failed: [], skipped: 0, largestError: 0 });
  expect(outputs).toMatchObject({ passed: 2, failed: [] });
});

it("finds one wrong element", async () => {
  const wrong = new ChangedBackend((row) => {
    if (row.kind === "hidden") row.values[row.values.length - 1] += 0.01;
    return row;
  });
  const [norms] = await results(wrong, ["rms-norm"]);
  expect(norms.passed).toBe(0);
  expect(norms.failed[0].name).toBe("64 in groups of 64");
  expect(norms.failed[0].what).toMatch(/^row 0 of 1 tokens is off by [\d.]+ %, allowed 0\.00316 %$/);
});

it("finds candidates that are not the most likely tokens, and rows that are not finite", async () => {
  const wrong = new ChangedBackend((row) => {
    if (row.kind === "candidates") row.ids.reverse();
    return row.kind === "hidden" ? { kind: "not-finite", column: 0 } : row;
  });
  const [adds, outputs] = await results(wrong, ["add", "outputs"]);
  expect(adds.failed).toHaveLength(1);
  expect(outputs.failed.map(({ what }) => what)).toContain("candidates are not the most likely tokens");
});

it("goes on after a case that throws, and ends with a lost device", async () => {
  const throwing = new ChangedBackend(() => {
    throw new Error("no such kernel");
  });
  const [adds] = await results(throwing, ["add"]);
  expect(adds.failed).toEqual([{ name: "96", what: "no such kernel" }]);
  const lost = new ChangedBackend(() => {
    throw new GpuError("GPU_DEVICE_LOST", "gone");
  });
  await expect(results(lost, ["add"])).rejects.toThrow("gone");
});

/** `reference` whose steps wait for as many cases as may be in flight; counts those that are. */
class WaitingBackend extends ReferenceBackend {
  inFlight = 0;
  mostInFlight = 0;
  begun = 0;
  readonly #fail: () => void;
  readonly #enough: number;
  readonly #gate: Promise<void>;
  #open = (): void => {};

  constructor(enough: number, fail: () => void = () => {}) {
    super();
    this.#enough = enough;
    this.#gate = new Promise((resolve) => (this.#open = resolve));
    this.#fail = fail;
  }

  override compile(...parameters: Parameters<ReferenceBackend["compile"]>): CompiledProgram {
    const program = super.compile(...parameters);
    const run = program.run.bind(program);
    this.begun++;
    program.run = async (...step) => {
      this.mostInFlight = Math.max(this.mostInFlight, ++this.inFlight);
      if (this.inFlight === this.#enough) this.#open();
      await this.#gate;
      try {
        this.#fail();
        return await run(...step);
      } finally {
        this.inFlight--;
      }
    };
    return program;
  }
}

it("has several cases in flight and no more than allowed, and reports each family when it is complete", async () => {
  const backend = new WaitingBackend(5);
  const complete: FamilyResult[] = [];
  const found = await verifyBackend(backend, {
    oracle: new ReferenceBackend(),
    full: false,
    families: ["rms-norm", "add", "glu"],
    casesAtATime: 5,
    onFamily: (result) => complete.push(result),
  });
  expect(backend.mostInFlight).toBe(5);
  expect(found.map(({ family, passed }) => [family, passed])).toEqual([
    ["rms-norm", 4],
    ["add", 1],
    ["glu", 6],
  ]);
  expect(new Set(complete)).toEqual(new Set(found));
});

it("begins no case after a device was lost, and waits for those in flight", async () => {
  const backend = new WaitingBackend(3, () => {
    throw new GpuError("GPU_DEVICE_LOST", "gone");
  });
  const options = {
    oracle: new ReferenceBackend(),
    full: false,
    families: ["glu", "rms-norm"],
    casesAtATime: 3,
  } as const;
  await expect(verifyBackend(backend, options)).rejects.toThrow("gone");
  expect(backend.begun).toBe(3);
  expect(backend.inFlight).toBe(0);
});

it("has cases of every family", () => {
  expect(FAMILY_KEYS.length).toBeGreaterThan(20);
});

it("writes a report to paste", () => {
  const family = { skipped: 0, largestError: 4e-14, milliseconds: 40 };
  const report = describeVerification({
    rocmforge: "0.1.0",
    node: "v20",
    platform: "linux-x64",
    backend: "hip",
    summary: "A card (gfx1100)",
    driver: "HIP 6.4",
    compiler: "hiprtc 6.4",
    full: false,
    families: [
      { family: "add", passed: 1, failed: [], ...family },
      { family: "matmul", passed: 2, failed: [{ name: "Q4_K", what: "row 0 is off by 7 %" }], ...family },
    ],
    notices: [],
    seconds: 1.5,
    passed: false,
  });
  expect(report).toContain("| add | 1 | 0 | 0 | 2.0e-7 | 0.0 |");
  expect(report).toContain("- **failed**: matmul, Q4_K: row 0 is off by 7 %");
  expect(report).toContain("**hip is wrong in 1 of 4 cases** (1.5 s)");
});
