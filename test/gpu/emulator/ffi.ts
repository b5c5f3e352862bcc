// The test double's functions as its own tests call them: bare, by their HIP names, with whatever handles a test makes up.
// Results that HIP writes through pointers go to `out`, eight bytes each.

import koffi from "koffi";
import { emulatorLibrary, type EmulatorSettings, settingVariables } from "./build.js";

const PROTOTYPES = [
  "int hipInit(uint32_t flags)",
  "int hipRuntimeGetVersion(void *out)",
  "int hipDriverGetVersion(void *out)",
  "int hipGetDeviceCount(void *out)",
  "int hipSetDevice(int index)",
  "int hipGetDevice(void *out)",
  "int hipDeviceGetAttribute(void *out, int attribute, int index)",
  "int hipGetDevicePropertiesR0600(void *out, int index)",
  "int hipGetDeviceProperties(void *out, int index)",
  "int hipMemGetInfo(void *free, void *total)",
  "int hipMalloc(void *out, size_t size)",
  "int hipFree(void *address)",
  "int hipHostMalloc(void *out, size_t size, uint32_t flags)",
  "int hipHostFree(void *address)",
  "int hipHostRegister(void *address, size_t size, uint32_t flags)",
  "int hipHostUnregister(void *address)",
  "int hipMemcpyHtoDAsync(void *target, void *source, size_t size, void *stream)",
  "int hipMemcpyDtoHAsync(void *target, void *source, size_t size, void *stream)",
  "int hipMemcpyDtoDAsync(void *target, void *source, size_t size, void *stream)",
  "int hipMemsetD8Async(void *target, uint8_t value, size_t count, void *stream)",
  "int hipStreamCreateWithFlags(void *out, uint32_t flags)",
  "int hipStreamDestroy(void *stream)",
  "int hipStreamSynchronize(void *stream)",
  "int hipStreamWaitEvent(void *stream, void *event, uint32_t flags)",
  "int hipDeviceSynchronize()",
  "int hipEventCreateWithFlags(void *out, uint32_t flags)",
  "int hipEventDestroy(void *event)",
  "int hipEventRecord(void *event, void *stream)",
  "int hipEventQuery(void *event)",
  "int hipEventSynchronize(void *event)",
  "int hipEventElapsedTime(void *out, void *start, void *end)",
  "int hipModuleLoadData(void *out, void *image)",
  "int hipModuleUnload(void *module)",
  "int hipModuleGetFunction(void *out, void *module, const char *name)",
  "int hipFuncSetAttribute(void *kernel, int attribute, int value)",
  "int hipFuncGetAttribute(void *value, int attribute, void *kernel)",
  "int hipModuleLaunchKernel(void *kernel, uint32_t gridX, uint32_t gridY, uint32_t gridZ, uint32_t blockX, uint32_t blockY, uint32_t blockZ, uint32_t shared, void *stream, void *parameters, void *extra)",
  "int hipStreamBeginCapture(void *stream, int mode)",
  "int hipStreamEndCapture(void *stream, void *out)",
  "int hipStreamIsCapturing(void *stream, void *out)",
  "int hipGraphInstantiate(void *out, void *graph, void *node, void *log, size_t size)",
  "int hipGraphLaunch(void *graph, void *stream)",
  "int hipGraphExecDestroy(void *graph)",
  "int hipGraphDestroy(void *graph)",
  "const char *hipGetErrorName(int status)",
  "const char *hipGetErrorString(int status)",
  "int hipGetLastError()",
  "int hiprtcVersion(void *major, void *minor)",
  "int hiprtcCreateProgram(void *out, const char *source, const char *name, int headers, void *texts, void *names)",
  "int hiprtcCompileProgram(void *program, int count, const char **options)",
  "int hiprtcGetProgramLogSize(void *program, void *out)",
  "int hiprtcGetProgramLog(void *program, void *out)",
  "int hiprtcGetCodeSize(void *program, void *out)",
  "int hiprtcGetCode(void *program, void *out)",
  "int hiprtcDestroyProgram(void *program)",
  "const char *hiprtcGetErrorString(int status)",
  "const char *emulatorLastMessage()",
  "void emulatorReset()",
  "long emulatorCount(const char *what)",
] as const;

type NameOf<Prototype extends string> = Prototype extends `${string} *${infer Name}(${string}`
  ? Name extends `${string} ${string}`
    ? PlainName<Prototype>
    : Name
  : PlainName<Prototype>;
type PlainName<Prototype extends string> = Prototype extends `${string} ${infer Name}(${string}` ? Name : never;
export type EmulatorCall = NameOf<(typeof PROTOTYPES)[number]>;
export type Argument = bigint | number | string | readonly string[] | Uint8Array | null;

export class Emulator {
  readonly #functions = new Map<string, (...args: unknown[]) => unknown>();

  constructor(library: string = emulatorLibrary()) {
    const handle = koffi.load(library);
    for (const prototype of PROTOTYPES) {
      const name = /(\w+)\(/.exec(prototype)?.[1] ?? "";
      this.#functions.set(name, handle.func(prototype));
    }
  }

  /** Settings hold from here on, and everything of before is gone. */
  reset(settings: EmulatorSettings = {}): void {
    Object.assign(process.env, settingVariables(settings));
    this.#call("emulatorReset");
  }

  /** The status that the function returns. */
  status(name: EmulatorCall, ...args: readonly Argument[]): number {
    return this.#call(name, ...args) as number;
  }

  /** For a call that must succeed. */
  do(name: EmulatorCall, ...args: readonly Argument[]): void {
    const status = this.status(name, ...args);
    if (status !== 0) throw new Error(`${name} returned ${status}: ${this.message()}`);
  }

  /** What a call that must succeed writes through its first pointer. */
  get(name: EmulatorCall, ...args: readonly Argument[]): bigint {
    const out = bytes(8);
    this.do(name, out, ...args);
    return new DataView(out.buffer).getBigUint64(0, true);
  }

  text(name: "hipGetErrorName" | "hipGetErrorString" | "hiprtcGetErrorString", status: number): string {
    return this.#call(name, status) as string;
  }

  message(): string {
    return this.#call("emulatorLastMessage") as string;
  }

  count(what: string): number {
    return Number(this.#call("emulatorCount", what));
  }

  #call(name: string, ...args: readonly Argument[]): unknown {
    const call = this.#functions.get(name);
    if (call === undefined) throw new TypeError(`no prototype for ${name}`);
    return call(...args.map((argument) => (argument instanceof Uint8Array ? addressOf(argument) : argument)));
  }
}

export function addressOf(array: Uint8Array): bigint {
  return koffi.address(array);
}

/** Over memory that the library owns: gone when it is freed. */
export function viewOf(address: bigint, sizeBytes: number): Uint8Array {
  return new Uint8Array(koffi.view(address, sizeBytes));
}

/** Never in the part of the heap that moves, as small arrays are otherwise. */
export function bytes(sizeBytes: number): Uint8Array<ArrayBuffer> {
  return new Uint8Array(new ArrayBuffer(sizeBytes));
}
