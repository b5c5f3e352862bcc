// The functions of the CUDA driver and NVRTC, from `cuda.h` and `nvrtc.h` of CUDA 12: C prototypes under this project's
// names, and the file names of the libraries. All pointers are `void *` here, including device addresses; see
// shared/ffi.ts.

import { readdirSync } from "node:fs";
import type { CompilerCalls, DriverCalls } from "../shared/calls.js";
import type { NativeCall, Prototypes } from "../shared/ffi.js";

/** Environment variable that names the CUDA driver's library. */
export const CUDA_LIBRARY_VARIABLE = "ROCMFORGE_CUDA_LIBRARY";
/** Environment variable that names NVRTC's library. */
export const NVRTC_LIBRARY_VARIABLE = "ROCMFORGE_NVRTC_LIBRARY";

/** File names of the CUDA driver's library, in the order in which they are tried. */
export const CUDA_LIBRARIES: readonly string[] = ["libcuda.so.1", "libcuda.so"];

const NVRTC_MAJORS = [13, 12];
const TOOLKITS_FOLDER = "/usr/local";
const TOOLKIT = /^cuda(?:-\d+(?:\.\d+)?)?$/;

/**
 * File names of NVRTC in the order in which they are tried: versions that the driver certainly supports before newer
 * ones, newest first, and system folders before those of CUDA toolkits.
 */
export function nvrtcLibraries(driverMajor: number): readonly string[] {
  const majors = [
    ...NVRTC_MAJORS.filter((major) => major <= driverMajor),
    ...NVRTC_MAJORS.filter((major) => major > driverMajor),
  ];
  const folders = toolkitFolders();
  return [
    ...majors.flatMap((major) => [
      `libnvrtc.so.${major}`,
      ...folders.map((folder) => `${folder}/libnvrtc.so.${major}`),
    ]),
    "libnvrtc.so",
    ...folders.map((folder) => `${folder}/libnvrtc.so`),
  ];
}

function toolkitFolders(): readonly string[] {
  try {
    const names = readdirSync(TOOLKITS_FOLDER).filter((name) => TOOLKIT.test(name));
    return names
      .sort((left, right) => right.localeCompare(left, "en", { numeric: true }))
      .map((name) => `${TOOLKITS_FOLDER}/${name}/lib64`);
  } catch {
    return [];
  }
}

/** CUDA's prototypes of the functions that it shares with HIP. */
export const CUDA_CALLS: Prototypes<DriverCalls> = {
  memoryInfo: "int cuMemGetInfo_v2(void *free, void *total)",
  allocate: "int cuMemAlloc_v2(void *out, size_t size)",
  free: "int cuMemFree_v2(void *address)",
  allocateHost: "int cuMemHostAlloc(void *out, size_t size, uint32_t flags)",
  freeHost: "int cuMemFreeHost(void *address)",
  registerHost: "int cuMemHostRegister_v2(void *address, size_t size, uint32_t flags)",
  unregisterHost: "int cuMemHostUnregister(void *address)",
  copyToDevice: "int cuMemcpyHtoDAsync_v2(void *target, void *source, size_t size, void *stream)",
  copyToHost: "int cuMemcpyDtoHAsync_v2(void *target, void *source, size_t size, void *stream)",
  copyOnDevice: "int cuMemcpyDtoDAsync_v2(void *target, void *source, size_t size, void *stream)",
  fill: "int cuMemsetD8Async(void *target, uint8_t value, size_t count, void *stream)",
  createStream: "int cuStreamCreate(void *out, uint32_t flags)",
  destroyStream: "int cuStreamDestroy_v2(void *stream)",
  streamWait: "int cuStreamWaitEvent(void *stream, void *event, uint32_t flags)",
  createEvent: "int cuEventCreate(void *out, uint32_t flags)",
  destroyEvent: "int cuEventDestroy_v2(void *event)",
  record: "int cuEventRecord(void *event, void *stream)",
  queryEvent: "int cuEventQuery(void *event)",
  waitForEvent: "int cuEventSynchronize(void *event)",
  elapsed: "int cuEventElapsedTime(void *out, void *start, void *end)",
  synchronize: "int cuCtxSynchronize()",
  loadModule: "int cuModuleLoadData(void *out, void *image)",
  unloadModule: "int cuModuleUnload(void *module)",
  kernel: "int cuModuleGetFunction(void *out, void *module, const char *name)",
  launch:
    "int cuLaunchKernel(void *kernel, uint32_t gridX, uint32_t gridY, uint32_t gridZ, uint32_t blockX, uint32_t blockY, uint32_t blockZ, uint32_t shared, void *stream, void *parameters, void *extra)",
  beginCapture: "int cuStreamBeginCapture_v2(void *stream, int mode)",
  endCapture: "int cuStreamEndCapture(void *stream, void *out)",
  launchGraph: "int cuGraphLaunch(void *graph, void *stream)",
  destroyGraph: "int cuGraphExecDestroy(void *graph)",
  destroyRecording: "int cuGraphDestroy(void *recording)",
};

/** Functions of the CUDA driver that have no common form with HIP. */
export interface CudaCalls {
  readonly initialise: NativeCall<[flags: number]>;
  readonly driverVersion: NativeCall<[out: bigint]>;
  readonly deviceCount: NativeCall<[out: bigint]>;
  readonly device: NativeCall<[out: bigint, index: number]>;
  readonly deviceName: NativeCall<[out: bigint, maxBytes: number, device: number]>;
  readonly totalMemory: NativeCall<[out: bigint, device: number]>;
  readonly attribute: NativeCall<[out: bigint, attribute: number, device: number]>;
  readonly retainContext: NativeCall<[out: bigint, device: number]>;
  readonly releaseContext: NativeCall<[device: number]>;
  readonly setContext: NativeCall<[context: bigint]>;
  readonly functionAttribute: NativeCall<[kernel: bigint, attribute: number, value: number]>;
  readonly instantiate: NativeCall<[out: bigint, recording: bigint, flags: number]>;
  readonly errorName: NativeCall<[number: number, out: bigint]>;
  readonly errorText: NativeCall<[number: number, out: bigint]>;
}

/** Prototypes of the functions that are specific to CUDA. */
export const CUDA_OWN_CALLS: Prototypes<CudaCalls> = {
  initialise: "int cuInit(uint32_t flags)",
  driverVersion: "int cuDriverGetVersion(void *out)",
  deviceCount: "int cuDeviceGetCount(void *out)",
  device: "int cuDeviceGet(void *out, int index)",
  deviceName: "int cuDeviceGetName(void *out, int maxBytes, int device)",
  totalMemory: "int cuDeviceTotalMem_v2(void *out, int device)",
  attribute: "int cuDeviceGetAttribute(void *out, int attribute, int device)",
  retainContext: "int cuDevicePrimaryCtxRetain(void *out, int device)",
  releaseContext: "int cuDevicePrimaryCtxRelease_v2(int device)",
  setContext: "int cuCtxSetCurrent(void *context)",
  functionAttribute: "int cuFuncSetAttribute(void *kernel, int attribute, int value)",
  instantiate: "int cuGraphInstantiateWithFlags(void *out, void *recording, uint64_t flags)",
  errorName: "int cuGetErrorName(int number, void *out)",
  errorText: "int cuGetErrorString(int number, void *out)",
};

/** Launch with attributes, which drivers have from 11.8 on; without it kernels wait for their predecessors to end. */
export interface CudaLaunchCall {
  readonly launchExtended: NativeCall<[config: bigint, kernel: bigint, parameters: bigint, extra: null]>;
}

/** Prototype of the launch with attributes. */
export const CUDA_LAUNCH_CALL: Prototypes<CudaLaunchCall> = {
  launchExtended: "int cuLaunchKernelEx(void *config, void *kernel, void *parameters, void *extra)",
};

/** NVRTC's prototypes of the compiler functions. */
export const NVRTC_CALLS: Prototypes<CompilerCalls> = {
  version: "int nvrtcVersion(void *major, void *minor)",
  createProgram:
    "int nvrtcCreateProgram(void *out, void *source, const char *name, int headers, void *texts, void *names)",
  compileProgram: "int nvrtcCompileProgram(void *program, int count, const char **options)",
  logSize: "int nvrtcGetProgramLogSize(void *program, void *out)",
  log: "int nvrtcGetProgramLog(void *program, void *out)",
  codeSize: "int nvrtcGetCUBINSize(void *program, void *out)",
  code: "int nvrtcGetCUBIN(void *program, void *out)",
  destroyProgram: "int nvrtcDestroyProgram(void *program)",
};
