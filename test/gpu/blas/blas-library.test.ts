// The vendor's matrix libraries through the very calls a device would see, against a stand-in built from fake-library.cpp
// that computes on host memory and refuses wrong numbers.

import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type {
  DeviceAddress,
  DriverKind,
  GpuDevice,
  StreamHandle,
} from "../../../src/backends/gpu/drivers/shared/driver.js";
import { type BlasLibrary, openBlasLibrary } from "../../../src/backends/gpu/blas/blas-library.js";
import { addressOf, bindCalls, type NativeCall, openLibrary } from "../../../src/backends/gpu/drivers/shared/ffi.js";
import { DisposedError, GpuError } from "../../../src/errors.js";
import { floatToHalf } from "../../../src/quant/half.js";

const SOURCE = fileURLToPath(new URL("fake-library.cpp", import.meta.url));
const VARIABLES = { cuda: "ROCMFORGE_CUBLASLT_LIBRARY", hip: "ROCMFORGE_HIPBLASLT_LIBRARY" } as const;
const FAIL = "FAKE_BLAS_FAIL";
const STREAM = 0n as StreamHandle;
const compiler = ["g++", "clang++"].find((name) => spawnSync(name, ["--version"]).status === 0);

/** A device whose memory is the host's. */
class HostDevice {
  readonly properties = { index: 0 };
  readonly buffers = new Map<bigint, ArrayBuffer>();
  constructor(readonly kind: DriverKind) {}

  memory(): { totalBytes: number; freeBytes: number } {
    return { totalBytes: 0, freeBytes: 0 };
  }

  allocate(sizeBytes: number): DeviceAddress {
    return this.hold(new ArrayBuffer(sizeBytes));
  }

  hold(buffer: ArrayBuffer): DeviceAddress {
    const address = addressOf(buffer);
    this.buffers.set(address, buffer);
    return address as DeviceAddress;
  }

  free(address: DeviceAddress): void {
    if (!this.buffers.delete(address)) throw new Error("freed what was not allocated");
  }

  get gpu(): GpuDevice {
    return this as unknown as GpuDevice;
  }
}

interface FakeCalls {
  readonly alive: NativeCall<[]>;
  readonly heuristics: NativeCall<[]>;
}

describe.skipIf(compiler === undefined)("matrix libraries (needs g++ or clang++ for the stand-in)", () => {
  let folder: string;
  let path: string;
  let fake: FakeCalls;

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "rocmforge-matrix-"));
    path = join(folder, "libfake.so");
    execFileSync(compiler!, ["-std=c++17", "-O1", "-shared", "-fPIC", "-o", path, SOURCE]);
    const library = openLibrary([path]);
    if ("missing" in library) throw new Error(library.reason);
    const bound = bindCalls<FakeCalls>(library, { alive: "int fakeAlive()", heuristics: "int fakeHeuristics()" });
    if ("lacking" in bound) throw new Error(bound.lacking.join());
    fake = bound.calls;
  });

  afterAll(() => rmSync(folder, { recursive: true }));

  afterEach(() => {
    for (const name of [...Object.values(VARIABLES), FAIL]) delete process.env[name];
    if (fake.alive() !== 0) throw new Error(`${fake.alive()} descriptors or handles were not given back`);
  });

  function open(device: HostDevice, options = {}): BlasLibrary {
    process.env[VARIABLES[device.kind]] = path;
    const library = openBlasLibrary(device.gpu, { workspaceBytes: 4096, ...options });
    if ("expected" in library) throw new Error(library.reason);
    return library;
  }

  const halves = (device: HostDevice, values: readonly number[]): DeviceAddress =>
    device.hold(Uint16Array.from(values, floatToHalf).buffer);

  it.each(["cuda", "hip"] as const)("multiplies rows with strides as %s does", (kind) => {
    const device = new HostDevice(kind);
    using library = open(device);
    const [rows, width, tokens, inputStride, outStride] = [5, 8, 3, 10, 7];
    const weights = Array.from({ length: rows * width }, (_, i) => (i % 7) - 3);
    const inputs = Array.from({ length: tokens * inputStride }, (_, i) => ((i * 5) % 11) / 4 - 1);
    const out = new Float32Array(tokens * outStride).fill(99);
    library.multiply({
      rows,
      width,
      tokens,
      inputStride,
      outStride,
      weights: halves(device, weights),
      inputs: halves(device, inputs),
      out: device.hold(out.buffer),
      stream: STREAM,
    });
    for (let token = 0; token < tokens; token++) {
      for (let column = 0; column < outStride; column++) {
        let expected = 99;
        if (column < rows) {
          expected = 0;
          for (let k = 0; k < width; k++) expected += weights[column * width + k] * inputs[token * inputStride + k];
        }
        expect(out[token * outStride + column]).toBeCloseTo(expected, 4);
      }
    }
  });

  it("chooses an algorithm once a shape, and forgets the one that was not used for longest", () => {
    const device = new HostDevice("hip");
    using library = open(device, { maxPlans: 2 });
    const before = fake.heuristics();
    const shape = (tokens: number) => ({ rows: 4, width: 32, tokens, inputStride: 32, outStride: 4 });
    for (const tokens of [1, 2, 1, 3, 1]) expect(library.prepare(shape(tokens))).toBe(true);
    expect(fake.heuristics() - before).toBe(3);
    expect(library.prepare(shape(2))).toBe(true);
    expect(fake.heuristics() - before).toBe(4);
  });

  describe("choices", () => {
    const shape = (tokens: number) => ({ rows: 4, width: 32, tokens, inputStride: 32, outStride: 4 });
    /** Choices that were made while `work` ran. */
    const chosenBy = (work: () => void): number => {
      const before = fake.heuristics();
      work();
      return fake.heuristics() - before;
    };

    it("are shared by neighbouring numbers of tokens where the library can check them, and products are right by them", () => {
      const device = new HostDevice("cuda");
      using library = open(device);
      expect(
        chosenBy(() => [400, 385, 512, 511].forEach((tokens) => expect(library.prepare(shape(tokens))).toBe(true))),
      ).toBe(1);
      expect(chosenBy(() => library.prepare(shape(513)))).toBe(1);
      expect(chosenBy(() => [1500, 1536].forEach((tokens) => library.prepare(shape(tokens))))).toBe(1);
      const [weights, inputs] = [
        Array.from({ length: 4 * 32 }, (_, i) => (i % 5) - 2),
        Array.from({ length: 400 * 32 }, (_, i) => (i % 3) - 1),
      ];
      const out = new Float32Array(400 * 4);
      library.multiply({
        ...shape(400),
        weights: halves(device, weights),
        inputs: halves(device, inputs),
        out: device.hold(out.buffer),
        stream: STREAM,
      });
      const expected = weights.slice(32, 64).reduce((sum, weight, k) => sum + weight * inputs[399 * 32 + k], 0);
      expect(out[399 * 4 + 1]).toBeCloseTo(expected, 4);
    });

    it("are made for every number of tokens where it cannot", () => {
      using library = open(new HostDevice("hip"));
      expect(library.kept).toBeUndefined();
      expect(chosenBy(() => [400, 385].forEach((tokens) => library.prepare(shape(tokens))))).toBe(2);
    });

    it("are taken over from an earlier process, and made anew where the library refuses one", () => {
      const kept = (() => {
        using library = open(new HostDevice("cuda"));
        library.prepare(shape(400));
        const changed = library.kept?.choices.changed();
        expect(library.kept?.choices.changed()).toBeUndefined();
        return changed;
      })();
      if (kept === undefined) return expect.unreachable();
      using library = open(new HostDevice("cuda"));
      expect(library.kept?.choices.restore(kept)).toBe(true);
      expect(library.kept?.identity).toContain(130100);
      expect(chosenBy(() => library.prepare(shape(450)))).toBe(0);
      process.env[FAIL] = "check";
      expect(chosenBy(() => expect(library.prepare(shape(460))).toBe(true))).toBe(2);
      delete process.env[FAIL];
      // Another algorithm than any that this library has.
      using other = open(new HostDevice("cuda"));
      const wrong = Buffer.from(kept)
        .toString("utf8")
        .replace(/:"a751/, ':"ffff');
      expect(other.kept?.choices.restore(Buffer.from(wrong))).toBe(true);
      expect(chosenBy(() => expect(other.prepare(shape(400))).toBe(true))).toBe(1);
    });
  });

  it.each([13, 17])("has no plan where the library has no algorithm within the workspace (%i rows)", (rows) => {
    const device = new HostDevice("hip");
    using library = open(device);
    const shape = { rows, width: 32, tokens: 9, inputStride: 32, outStride: rows };
    expect(library.prepare(shape)).toBe(false);
    const address = halves(device, Array<number>(32 * rows).fill(0));
    expect(() =>
      library.multiply({ ...shape, weights: address, inputs: address, out: address, stream: STREAM }),
    ).toThrow(/no algorithm/);
  });

  it("says which call failed, and takes an allocation that failed for what it is", () => {
    const device = new HostDevice("cuda");
    using library = open(device);
    const shape = { rows: 1, width: 8, tokens: 1, inputStride: 8, outStride: 1 };
    const address = halves(device, Array<number>(8).fill(1));
    process.env[FAIL] = "multiply";
    try {
      library.multiply({ ...shape, weights: address, inputs: address, out: address, stream: STREAM });
      expect.unreachable();
    } catch (error) {
      expect(error).toBeInstanceOf(GpuError);
      expect(error).toMatchObject({ code: "GPU_OUT_OF_MEMORY", details: { call: "cublasLtMatmul", number: 3 } });
    }
  });

  it("gives everything back once, and is not used afterwards", () => {
    const device = new HostDevice("hip");
    const library = open(device);
    const shape = { rows: 2, width: 32, tokens: 2, inputStride: 32, outStride: 2 };
    library.prepare(shape);
    library[Symbol.dispose]();
    library[Symbol.dispose]();
    expect(device.buffers.size).toBe(0);
    expect(() => library.prepare(shape)).toThrow(DisposedError);
  });

  it("gives the handle back when there is no memory for the workspace", () => {
    const device = new HostDevice("cuda");
    device.allocate = () => {
      throw new Error("no memory");
    };
    expect(() => open(device)).toThrow("no memory");
  });

  it("explains a library that does not start, lacks functions, or is not there", () => {
    const device = new HostDevice("cuda");
    process.env[VARIABLES.cuda] = path;
    process.env[FAIL] = "create";
    expect(openBlasLibrary(device.gpu)).toMatchObject({
      expected: false,
      reason: expect.stringContaining("cublasLtCreate") as string,
    });
    process.env[VARIABLES.cuda] = "libm.so.6";
    expect(openBlasLibrary(device.gpu)).toMatchObject({
      expected: false,
      reason: expect.stringContaining("cublasLtMatmul") as string,
    });
    process.env[VARIABLES.cuda] = join(folder, "absent.so");
    expect(openBlasLibrary(device.gpu)).toMatchObject({
      expected: false,
      reason: expect.stringContaining("absent.so") as string,
    });
  });
});
