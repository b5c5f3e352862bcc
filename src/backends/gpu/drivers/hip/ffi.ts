// HIP's functions, from `hip_runtime_api.h` and `hiprtc.h`, unchanged since 5.0: C prototypes under this project's
// names, and the file names of the libraries. All pointers are `void *` here; see shared/ffi.ts.

import type { CompilerCalls, DriverCalls } from "../shared/calls.js";
import type { NativeCall, Prototypes } from "../shared/ffi.js";

/** Environment variable that names the HIP runtime's library. */
export const HIP_LIBRARY_VARIABLE = "ROCMFORGE_HIP_LIBRARY";
/** Environment variable that names hiprtc's library. */
export const HIPRTC_LIBRARY_VARIABLE = "ROCMFORGE_HIPRTC_LIBRARY";

/** File names of the HIP runtime, newest first; the name without a version belongs to the development package. */
export const HIP_NAMES: readonly string[] = [
  "libamdhip64.so.7",
  "libamdhip64.so.6",
  "libamdhip64.so.5",
  "libamdhip64.so",
];
/** Names of the HIP runtime on Windows for the system's search path, newest first. */
export const HIP_WINDOWS_NAMES: readonly string[] = ["amdhip64_7.dll", "amdhip64_6.dll", "amdhip64.dll"];
/** File names of hiprtc, newest first. */
export const HIPRTC_NAMES: readonly string[] = ["libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5", "libhiprtc.so"];

/** HIP's prototypes of the functions that it shares with CUDA. */
export const HIP_CALLS: Prototypes<DriverCalls> = {
  memoryInfo: "int hipMemGetInfo(void *free, void *total)",
  allocate: "int hipMalloc(void *out, size_t size)",
  free: "int hipFree(void *address)",
  allocateHost: "int hipHostMalloc(void *out, size_t size, uint32_t flags)",
  freeHost: "int hipHostFree(void *address)",
  registerHost: "int hipHostRegister(void *address, size_t size, uint32_t flags)",
  unregisterHost: "int hipHostUnregister(void *address)",
  copyToDevice: "int hipMemcpyHtoDAsync(void *target, void *source, size_t size, void *stream)",
  copyToHost: "int hipMemcpyDtoHAsync(void *target, void *source, size_t size, void *stream)",
  copyOnDevice: "int hipMemcpyDtoDAsync(void *target, void *source, size_t size, void *stream)",
  fill: "int hipMemsetD8Async(void *target, uint8_t value, size_t count, void *stream)",
  createStream: "int hipStreamCreateWithFlags(void *out, uint32_t flags)",
  destroyStream: "int hipStreamDestroy(void *stream)",
  streamWait: "int hipStreamWaitEvent(void *stream, void *event, uint32_t flags)",
  createEvent: "int hipEventCreateWithFlags(void *out, uint32_t flags)",
  destroyEvent: "int hipEventDestroy(void *event)",
  record: "int hipEventRecord(void *event, void *stream)",
  queryEvent: "int hipEventQuery(void *event)",
  waitForEvent: "int hipEventSynchronize(void *event)",
  elapsed: "int hipEventElapsedTime(void *out, void *start, void *end)",
  synchronize: "int hipDeviceSynchronize()",
  loadModule: "int hipModuleLoadData(void *out, void *image)",
  unloadModule: "int hipModuleUnload(void *module)",
  kernel: "int hipModuleGetFunction(void *out, void *module, const char *name)",
  launch:
    "int hipModuleLaunchKernel(void *kernel, uint32_t gridX, uint32_t gridY, uint32_t gridZ, uint32_t blockX, uint32_t blockY, uint32_t blockZ, uint32_t shared, void *stream, void *parameters, void *extra)",
  beginCapture: "int hipStreamBeginCapture(void *stream, int mode)",
  endCapture: "int hipStreamEndCapture(void *stream, void *out)",
  launchGraph: "int hipGraphLaunch(void *graph, void *stream)",
  destroyGraph: "int hipGraphExecDestroy(void *graph)",
  destroyRecording: "int hipGraphDestroy(void *recording)",
};

/** Functions of the HIP runtime that have no common form with CUDA. */
export interface HipCalls {
  readonly runtimeVersion: NativeCall<[out: bigint]>;
  readonly deviceCount: NativeCall<[out: bigint]>;
  readonly setDevice: NativeCall<[index: number]>;
  readonly attribute: NativeCall<[out: bigint, attribute: number, index: number]>;
  readonly instantiate: NativeCall<[out: bigint, recording: bigint, errorNode: null, log: null, logBytes: number]>;
  /** Returns text, not a status. */
  readonly errorName: (number: number) => bigint | null;
  readonly errorText: (number: number) => bigint | null;
}

/** Prototypes of the functions that are specific to HIP. */
export const HIP_OWN_CALLS: Prototypes<HipCalls> = {
  runtimeVersion: "int hipRuntimeGetVersion(void *out)",
  deviceCount: "int hipGetDeviceCount(void *out)",
  setDevice: "int hipSetDevice(int index)",
  attribute: "int hipDeviceGetAttribute(void *out, int attribute, int index)",
  instantiate: "int hipGraphInstantiate(void *out, void *recording, void *errorNode, void *log, size_t logBytes)",
  errorName: "void *hipGetErrorName(int number)",
  errorText: "void *hipGetErrorString(int number)",
};

/** The query for a device's PCI address; a separate table, because libraries without it still work. */
export interface HipAddressCall {
  readonly pciAddress: NativeCall<[out: bigint, outBytes: number, index: number]>;
}

/** Prototype of the query for a device's PCI address. */
export const HIP_ADDRESS_CALL: Prototypes<HipAddressCall> = {
  pciAddress: "int hipDeviceGetPCIBusId(void *out, int outBytes, int index)",
};

/** The query for device properties: one of two symbols, each with its own layout of `hipDeviceProp_t`. */
export interface HipPropertiesCall {
  readonly properties: NativeCall<[out: bigint, index: number]>;
}

/** The layouts of `hipDeviceProp_t`: a versioned symbol from 6.0 on, the plain name before that. */
export const HIP_PROPERTY_LAYOUTS = [
  {
    prototypes: { properties: "int hipGetDevicePropertiesR0600(void *out, int index)" },
    sizeBytes: 1472,
    totalBytesOffset: 288,
    architectureOffset: 1160,
  },
  {
    prototypes: { properties: "int hipGetDeviceProperties(void *out, int index)" },
    sizeBytes: 792,
    totalBytesOffset: 256,
    architectureOffset: 396,
  },
] as const;

/** hiprtc's prototypes of the compiler functions. */
export const HIPRTC_CALLS: Prototypes<CompilerCalls> = {
  version: "int hiprtcVersion(void *major, void *minor)",
  createProgram:
    "int hiprtcCreateProgram(void *out, void *source, const char *name, int headers, void *texts, void *names)",
  compileProgram: "int hiprtcCompileProgram(void *program, int count, const char **options)",
  logSize: "int hiprtcGetProgramLogSize(void *program, void *out)",
  log: "int hiprtcGetProgramLog(void *program, void *out)",
  codeSize: "int hiprtcGetCodeSize(void *program, void *out)",
  code: "int hiprtcGetCode(void *program, void *out)",
  destroyProgram: "int hiprtcDestroyProgram(void *program)",
};

/** A HIP library that exports this symbol contains the compiler. */
export const HIPRTC_SYMBOL = "hiprtcCompileProgram";
