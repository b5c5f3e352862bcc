// The functions that HIP and CUDA have in common, under this project's names. Their symbols differ, their parameters do
// not: each driver's ffi.ts has the C prototypes. `out` is the address that a result is written to.

import type { NativeCall } from "./ffi.js";

/** The driver functions that HIP and CUDA share; each returns a status, 0 for success. */
export interface DriverCalls {
  readonly memoryInfo: NativeCall<[outFree: bigint, outTotal: bigint]>;
  readonly allocate: NativeCall<[out: bigint, sizeBytes: number]>;
  readonly free: NativeCall<[address: bigint]>;
  readonly allocateHost: NativeCall<[out: bigint, sizeBytes: number, flags: number]>;
  readonly freeHost: NativeCall<[address: bigint]>;
  readonly registerHost: NativeCall<[address: bigint, sizeBytes: number, flags: number]>;
  readonly unregisterHost: NativeCall<[address: bigint]>;
  readonly copyToDevice: NativeCall<[target: bigint, source: bigint, sizeBytes: number, stream: bigint]>;
  readonly copyToHost: NativeCall<[target: bigint, source: bigint, sizeBytes: number, stream: bigint]>;
  readonly copyOnDevice: NativeCall<[target: bigint, source: bigint, sizeBytes: number, stream: bigint]>;
  readonly fill: NativeCall<[target: bigint, byte: number, sizeBytes: number, stream: bigint]>;
  readonly createStream: NativeCall<[out: bigint, flags: number]>;
  readonly destroyStream: NativeCall<[stream: bigint]>;
  readonly streamWait: NativeCall<[stream: bigint, event: bigint, flags: number]>;
  readonly createEvent: NativeCall<[out: bigint, flags: number]>;
  readonly destroyEvent: NativeCall<[event: bigint]>;
  readonly record: NativeCall<[event: bigint, stream: bigint]>;
  readonly queryEvent: NativeCall<[event: bigint]>;
  readonly waitForEvent: NativeCall<[event: bigint]>;
  readonly elapsed: NativeCall<[out: bigint, start: bigint, end: bigint]>;
  readonly synchronize: NativeCall<[]>;
  readonly loadModule: NativeCall<[out: bigint, image: bigint]>;
  readonly unloadModule: NativeCall<[module: bigint]>;
  readonly kernel: NativeCall<[out: bigint, module: bigint, name: string]>;
  readonly launch: NativeCall<
    [
      kernel: bigint,
      gridX: number,
      gridY: number,
      gridZ: number,
      threadsX: number,
      threadsY: number,
      threadsZ: number,
      sharedBytes: number,
      stream: bigint,
      parameters: bigint,
      extra: null,
    ]
  >;
  readonly beginCapture: NativeCall<[stream: bigint, mode: number]>;
  readonly endCapture: NativeCall<[stream: bigint, out: bigint]>;
  readonly launchGraph: NativeCall<[graph: bigint, stream: bigint]>;
  readonly destroyGraph: NativeCall<[graph: bigint]>;
  /** Destroys the captured graph from which an executable graph was instantiated. */
  readonly destroyRecording: NativeCall<[recording: bigint]>;
}

/** The functions that hiprtc and NVRTC share. */
export interface CompilerCalls {
  readonly version: NativeCall<[outMajor: bigint, outMinor: bigint]>;
  readonly createProgram: NativeCall<
    [out: bigint, source: bigint, name: string, headers: number, headerTexts: null, headerNames: null]
  >;
  readonly compileProgram: NativeCall<[program: bigint, optionCount: number, options: readonly string[]]>;
  readonly logSize: NativeCall<[program: bigint, out: bigint]>;
  readonly log: NativeCall<[program: bigint, out: bigint]>;
  readonly codeSize: NativeCall<[program: bigint, out: bigint]>;
  readonly code: NativeCall<[program: bigint, out: bigint]>;
  /** Takes the address of the handle. */
  readonly destroyProgram: NativeCall<[program: bigint]>;
}
