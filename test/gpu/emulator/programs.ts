// Compiling and launching for the test double's own tests: test-kernels.hip behind kernels/device/portable.h.

import { readFileSync } from "node:fs";
import { addressOf, bytes, type Emulator, viewOf } from "./ffi.js";

const read = (path: string): string => readFileSync(new URL(path, import.meta.url), "utf8");
/** The headers that it names are left where they are: only the double's own is reached, and its compiler has that one. */
export const PORTABLE = read("../../../kernels/device/portable.h").replace("#pragma once", "");
export const TEST_KERNELS = `${PORTABLE}\n#line 1 "test-kernels.hip"\n${read("./test-kernels.hip")}`;

export const ARCHITECTURES = { 32: "gfx1100", 64: "gfx90a" } as const;

export interface Compiled {
  readonly status: number;
  readonly log: string;
  readonly image: Uint8Array;
}

export function compile(
  emulator: Emulator,
  source: string,
  waveSize: 32 | 64,
  options: readonly string[] = [],
): Compiled {
  const program = emulator.get("hiprtcCreateProgram", source, "test.hip", 0, null, null);
  const all = [`--gpu-architecture=${ARCHITECTURES[waveSize]}`, "-std=c++17", "-O3", `-DWAVE=${waveSize}`, ...options];
  const status = emulator.status("hiprtcCompileProgram", program, all.length, all);
  const size = bytes(8);
  emulator.do("hiprtcGetProgramLogSize", program, size);
  const log = bytes(numberAt(size));
  emulator.do("hiprtcGetProgramLog", program, log);
  let image = bytes(0);
  if (status === 0) {
    emulator.do("hiprtcGetCodeSize", program, size);
    image = bytes(numberAt(size));
    emulator.do("hiprtcGetCode", program, image);
  }
  const handle = bytes(8);
  new DataView(handle.buffer).setBigUint64(0, program, true);
  emulator.do("hiprtcDestroyProgram", handle);
  return { status, log: Buffer.from(log).toString("utf8", 0, log.length - 1), image };
}

function numberAt(out: Uint8Array<ArrayBuffer>): number {
  return Number(new DataView(out.buffer).getBigUint64(0, true));
}

/** BigInts become addresses or u64, numbers become int. */
export function pack(values: readonly (bigint | number)[]): Uint8Array {
  const packed = bytes(8 * values.length);
  const view = new DataView(packed.buffer);
  let offset = 0;
  for (const value of values) {
    if (typeof value === "bigint") {
      offset = Math.ceil(offset / 8) * 8;
      view.setBigUint64(offset, value, true);
      offset += 8;
    } else {
      view.setInt32(offset, value, true);
      offset += 4;
    }
  }
  return packed;
}

export interface Launch {
  readonly grid?: readonly [number, number, number];
  readonly threads?: number;
  readonly sharedBytes?: number;
  readonly stream?: bigint;
}

const THREADS = /KERNEL\((\w+), \w+, (\d+)\)/g;
const threadsOf = new Map([...TEST_KERNELS.matchAll(THREADS)].map(([, name, threads]) => [name, Number(threads)]));

/** Launches kernels of one loaded module by name. */
export class TestKernels {
  readonly module: bigint;
  readonly #emulator: Emulator;

  constructor(emulator: Emulator, image: Uint8Array) {
    this.#emulator = emulator;
    this.module = emulator.get("hipModuleLoadData", image);
  }

  launch(
    name: string,
    values: readonly (bigint | number)[],
    { grid = [1, 1, 1], threads = threadsOf.get(name) ?? 0, sharedBytes = 0, stream = 0n }: Launch = {},
  ): number {
    const kernel = this.#emulator.get("hipModuleGetFunction", this.module, name);
    const argument = pack(values);
    const parameters = bytes(8);
    new DataView(parameters.buffer).setBigUint64(0, addressOf(argument), true);
    return this.#emulator.status(
      "hipModuleLaunchKernel",
      kernel,
      ...grid,
      threads,
      1,
      1,
      sharedBytes,
      stream,
      parameters,
      null,
    );
  }

  /** Launches and waits; the status of whichever says no first. */
  run(name: string, values: readonly (bigint | number)[], launch: Launch = {}): number {
    return this.launch(name, values, launch) || this.#emulator.status("hipDeviceSynchronize");
  }
}

/** A device array with these numbers in it. */
export function upload(emulator: Emulator, values: Uint32Array<ArrayBuffer>): bigint {
  const address = emulator.get("hipMalloc", Math.max(4, values.byteLength));
  emulator.do("hipMemcpyHtoDAsync", address, bytesOf(values), values.byteLength, 0n);
  return address;
}

export function download(emulator: Emulator, address: bigint, count: number): Uint32Array<ArrayBuffer> {
  const values = new Uint32Array(new ArrayBuffer(4 * count));
  emulator.do("hipMemcpyDtoHAsync", bytesOf(values), address, values.byteLength, 0n);
  return values;
}

export function bytesOf(values: Uint32Array<ArrayBuffer>): Uint8Array {
  return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
}

/** Some seconds, after which a gate that a failed test left shut opens by itself. */
const GATE_TURNS = 4_000_000_000n;

/** Work that does not end before the test says so: the only sure way to see what happens meanwhile. */
export class Gate {
  readonly #kernels: TestKernels;
  readonly #flag: bigint;

  constructor(emulator: Emulator, kernels: TestKernels) {
    this.#kernels = kernels;
    this.#flag = emulator.get("hipHostMalloc", 4, 0);
    viewOf(this.#flag, 4).fill(0);
  }

  /** What the stream gets from here on waits for `open`. */
  shut(stream: bigint): void {
    const status = this.#kernels.launch("wait_for_host", [this.#flag, GATE_TURNS, 0n], { stream });
    if (status !== 0) throw new Error(`the gate could not be shut: ${status}`);
  }

  open(): void {
    viewOf(this.#flag, 4).fill(1);
  }
}
