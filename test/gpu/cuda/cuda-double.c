// A CUDA driver and NVRTC that pass everything on to the HIP test double (EMULATOR names its file), and are as particular
// as the real ones where those differ from HIP: contexts belong to threads, devices have handles, launches may have
// attributes, and a kernel has 48 KiB of shared memory until it is given more. Structs are laid out as cuda.h has them.
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/** What a test may have otherwise: the CUDA that the driver knows, its card's generation, how long a context takes, how it fails. */
#ifndef VERSION
#define VERSION 12040
#endif
#ifndef MAJOR
#define MAJOR 9
#endif
#ifndef CONTEXT_MS
#define CONTEXT_MS 0
#endif
#ifndef CONTEXT_FAILURE
#define CONTEXT_FAILURE 0
#endif

typedef unsigned long long Address;
enum { kInvalidValue = 1, kInvalidContext = 201, kFirstDevice = 100, kReadOnlyPortable = 9 };
/** CUfunction_attribute, which HIP numbers alike, and what a block has of shared memory: asked for, and unasked. */
enum { kStaticShared = 1, kMaxDynamicShared = 8, kMostShared = 64 << 10, kUnaskedShared = 48 << 10 };

static void* hip(const char* name) {
  static void* library;
  if (library == NULL) library = dlopen(EMULATOR, RTLD_NOW | RTLD_LOCAL);
  void* symbol = library == NULL ? NULL : dlsym(library, name);
  if (symbol == NULL) {
    fprintf(stderr, "cuda-double: no %s in %s\n", name, EMULATOR);
    abort();
  }
  return symbol;
}
#define HIP(name, ...) (((int (*)())hip(#name))(__VA_ARGS__))

static __thread Address current;
static int retained, retain_calls, dependent_launches, plain_launches;

int cuDoubleRetained(void) { return retained; }
int cuDoubleRetainCalls(void) { return retain_calls; }
int cuDoubleDependentLaunches(void) { return dependent_launches; }
int cuDoublePlainLaunches(void) { return plain_launches; }

int cuInit(unsigned flags) { return flags == 0 ? 0 : kInvalidValue; }
int cuDriverGetVersion(int* out) { return *out = VERSION, 0; }
int cuDeviceGetCount(int* out) { return HIP(hipGetDeviceCount, out); }
int cuDeviceGet(int* out, int index) { return *out = kFirstDevice + index, 0; }
int cuDeviceGetName(char* out, int size, int device) {
  return device < kFirstDevice ? kInvalidValue : (snprintf(out, (size_t)size, "Double %d", device - kFirstDevice), 0);
}
int cuDeviceTotalMem_v2(size_t* out, int device) {
  return device < kFirstDevice ? kInvalidValue : (*out = (size_t)2 << 30, 0);
}
int cuDeviceGetAttribute(int* out, int attribute, int device) {
  if (device < kFirstDevice) return kInvalidValue;
  switch (attribute) {
    case 10: return *out = 32, 0;
    case 16: return *out = 4, 0;
    case 18: return *out = 0, 0;
    case 75: return *out = MAJOR, 0;
    case 76: return *out = 0, 0;
    case 97: return *out = kMostShared, 0;
    default: return kInvalidValue;
  }
}
int cuDevicePrimaryCtxRetain(Address* out, int device) {
  if (device < kFirstDevice) return kInvalidValue;
  __atomic_fetch_add(&retain_calls, 1, __ATOMIC_SEQ_CST);
  usleep(CONTEXT_MS * 1000);
  if (CONTEXT_FAILURE != 0) return CONTEXT_FAILURE;
  __atomic_fetch_add(&retained, 1, __ATOMIC_SEQ_CST);
  return *out = 0xc0de00u + (unsigned)device, 0;
}
int cuDevicePrimaryCtxRelease_v2(int device) { return device < kFirstDevice ? kInvalidValue : (retained--, 0); }
int cuCtxSetCurrent(Address context) { return current = context, 0; }
int cuCtxSynchronize(void) { return current == 0 ? kInvalidContext : HIP(hipDeviceSynchronize); }
int cuGetErrorName(int number, const char** out) {
  switch (number) {
    case 2: return *out = "CUDA_ERROR_OUT_OF_MEMORY", 0;
    case 100: return *out = "CUDA_ERROR_NO_DEVICE", 0;
    case kInvalidContext: return *out = "CUDA_ERROR_INVALID_CONTEXT", 0;
    case 719: return *out = "CUDA_ERROR_LAUNCH_FAILED", 0;
    default: return *out = "CUDA_ERROR_OTHER", 0;
  }
}
int cuGetErrorString(int number, const char** out) { return *out = number == 2 ? "out of memory" : "another", 0; }

#define FORWARD(cuda, hip, parameters, arguments) \
  int cuda parameters { return current == 0 ? kInvalidContext : ((int(*) parameters)(hip_symbol_##hip()))arguments; }
#define SYMBOL(name) \
  static void* hip_symbol_##name(void) { return hip(#name); }
SYMBOL(hipMemGetInfo)
SYMBOL(hipMalloc)
SYMBOL(hipFree)
SYMBOL(hipHostMalloc)
SYMBOL(hipHostFree)
SYMBOL(hipHostUnregister)
SYMBOL(hipMemcpyHtoDAsync)
SYMBOL(hipMemcpyDtoHAsync)
SYMBOL(hipMemcpyDtoDAsync)
SYMBOL(hipMemsetD8Async)
SYMBOL(hipStreamCreateWithFlags)
SYMBOL(hipStreamDestroy)
SYMBOL(hipStreamWaitEvent)
SYMBOL(hipEventCreateWithFlags)
SYMBOL(hipEventDestroy)
SYMBOL(hipEventRecord)
SYMBOL(hipEventQuery)
SYMBOL(hipEventSynchronize)
SYMBOL(hipEventElapsedTime)
SYMBOL(hipModuleLoadData)
SYMBOL(hipModuleUnload)
SYMBOL(hipStreamBeginCapture)
SYMBOL(hipStreamEndCapture)
SYMBOL(hipGraphLaunch)
SYMBOL(hipGraphExecDestroy)
SYMBOL(hipGraphDestroy)

FORWARD(cuMemGetInfo_v2, hipMemGetInfo, (size_t* a, size_t* b), (a, b))
FORWARD(cuMemAlloc_v2, hipMalloc, (Address * a, size_t b), (a, b))
FORWARD(cuMemFree_v2, hipFree, (Address a), (a))
FORWARD(cuMemHostAlloc, hipHostMalloc, (void** a, size_t b, unsigned c), (a, b, c))
FORWARD(cuMemFreeHost, hipHostFree, (void* a), (a))
FORWARD(cuMemHostUnregister, hipHostUnregister, (void* a), (a))
FORWARD(cuMemcpyHtoDAsync_v2, hipMemcpyHtoDAsync, (Address a, void* b, size_t c, void* d), (a, b, c, d))
FORWARD(cuMemcpyDtoHAsync_v2, hipMemcpyDtoHAsync, (void* a, Address b, size_t c, void* d), (a, b, c, d))
FORWARD(cuMemcpyDtoDAsync_v2, hipMemcpyDtoDAsync, (Address a, Address b, size_t c, void* d), (a, b, c, d))
FORWARD(cuMemsetD8Async, hipMemsetD8Async, (Address a, unsigned char b, size_t c, void* d), (a, b, c, d))
FORWARD(cuStreamCreate, hipStreamCreateWithFlags, (void** a, unsigned b), (a, b))
FORWARD(cuStreamDestroy_v2, hipStreamDestroy, (void* a), (a))
FORWARD(cuStreamWaitEvent, hipStreamWaitEvent, (void* a, void* b, unsigned c), (a, b, c))
FORWARD(cuEventCreate, hipEventCreateWithFlags, (void** a, unsigned b), (a, b))
FORWARD(cuEventDestroy_v2, hipEventDestroy, (void* a), (a))
FORWARD(cuEventRecord, hipEventRecord, (void* a, void* b), (a, b))
FORWARD(cuEventQuery, hipEventQuery, (void* a), (a))
FORWARD(cuEventSynchronize, hipEventSynchronize, (void* a), (a))
FORWARD(cuEventElapsedTime, hipEventElapsedTime, (float* a, void* b, void* c), (a, b, c))
FORWARD(cuModuleLoadData, hipModuleLoadData, (void** a, const void* b), (a, b))
FORWARD(cuModuleUnload, hipModuleUnload, (void* a), (a))
FORWARD(cuStreamBeginCapture_v2, hipStreamBeginCapture, (void* a, int b), (a, b))
FORWARD(cuStreamEndCapture, hipStreamEndCapture, (void* a, void** b), (a, b))
FORWARD(cuGraphLaunch, hipGraphLaunch, (void* a, void* b), (a, b))
FORWARD(cuGraphExecDestroy, hipGraphExecDestroy, (void* a), (a))
FORWARD(cuGraphDestroy, hipGraphDestroy, (void* a), (a))

int cuMemHostRegister_v2(void* address, size_t size, unsigned flags) {
  if (current == 0) return kInvalidContext;
  return flags != kReadOnlyPortable ? kInvalidValue
                                    : ((int (*)(void*, size_t, unsigned))hip("hipHostRegister"))(address, size, 0);
}

static int function_attribute(int attribute, void* kernel) {
  int value = 0;
  return ((int (*)(int*, int, void*))hip("hipFuncGetAttribute"))(&value, attribute, kernel) == 0 ? value : 0;
}

static int allow_shared(void* kernel, int value) {
  return ((int (*)(void*, int, int))hip("hipFuncSetAttribute"))(kernel, kMaxDynamicShared, value);
}

/** A kernel that nobody asked for more has 48 KiB with its own; one that was looked up before keeps what it was given. */
int cuModuleGetFunction(void** out, void* module, const char* name) {
  if (current == 0) return kInvalidContext;
  const int code = ((int (*)(void**, void*, const char*))hip("hipModuleGetFunction"))(out, module, name);
  if (code != 0) return code;
  const int own = function_attribute(kStaticShared, *out);
  const int untouched = function_attribute(kMaxDynamicShared, *out) == kMostShared - own;
  if (untouched) allow_shared(*out, own < kUnaskedShared ? kUnaskedShared - own : 0);
  return 0;
}

int cuFuncSetAttribute(void* kernel, int attribute, int value) {
  if (current == 0) return kInvalidContext;
  return attribute != kMaxDynamicShared ? kInvalidValue : allow_shared(kernel, value);
}

int cuGraphInstantiateWithFlags(void** out, void* recording, unsigned long long flags) {
  if (current == 0) return kInvalidContext;
  return flags != 0 ? kInvalidValue
                    : ((int (*)(void**, void*, void*, void*, size_t))hip("hipGraphInstantiate"))(out, recording, NULL,
                                                                                                 NULL, 0);
}

typedef int (*Launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                      void**);

int cuLaunchKernel(void* kernel, unsigned x, unsigned y, unsigned z, unsigned tx, unsigned ty, unsigned tz,
                   unsigned shared, void* stream, void** parameters, void** extra) {
  if (current == 0) return kInvalidContext;
  plain_launches++;
  return ((Launch)hip("hipModuleLaunchKernel"))(kernel, x, y, z, tx, ty, tz, shared, stream, parameters, extra);
}

struct LaunchAttribute {
  int id;
  char padding[8 - sizeof(int)];
  union {
    char bytes[64];
    int programmatic_stream_serialization_allowed;
  } value;
};

struct LaunchConfig {
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  void* stream;
  struct LaunchAttribute* attributes;
  unsigned attribute_count;
};

int cuLaunchKernelEx(const struct LaunchConfig* config, void* kernel, void** parameters, void** extra) {
  if (current == 0) return kInvalidContext;
  if (config->attribute_count != 1 || config->attributes[0].id != 6) return kInvalidValue;
  if (config->attributes[0].value.programmatic_stream_serialization_allowed != 1) return kInvalidValue;
  dependent_launches++;
  return ((Launch)hip("hipModuleLaunchKernel"))(kernel, config->grid_x, config->grid_y, config->grid_z, config->block_x,
                                                config->block_y, config->block_z, config->shared_bytes, config->stream,
                                                parameters, extra);
}

int nvrtcVersion(int* major, int* minor) { return *major = 12, *minor = 4, 0; }
int nvrtcCreateProgram(void** a, const char* b, const char* c, int d, const char** e, const char** f) {
  return ((int (*)(void**, const char*, const char*, int, const char**, const char**))hip("hiprtcCreateProgram"))(
      a, b, c, d, e, f);
}
/** Takes the very options that this package gives, and no others. */
int nvrtcCompileProgram(void* program, int count, const char** options) {
  const char* passed[64];
  int used = 0;
  for (int i = 0; i < count && used < 64; i++) {
    if (strcmp(options[i], "--gpu-architecture=sm_90a") == 0)
      passed[used++] = "--gpu-architecture=gfx1100";
    else if (strncmp(options[i], "-D", 2) == 0)
      passed[used++] = options[i];
    else if (strcmp(options[i], "--std=c++17") != 0 && strcmp(options[i], "-default-device") != 0)
      return 5;
  }
  return ((int (*)(void*, int, const char**))hip("hiprtcCompileProgram"))(program, used, passed);
}
int nvrtcGetProgramLogSize(void* a, size_t* b) {
  return ((int (*)(void*, size_t*))hip("hiprtcGetProgramLogSize"))(a, b);
}
int nvrtcGetProgramLog(void* a, char* b) { return ((int (*)(void*, char*))hip("hiprtcGetProgramLog"))(a, b); }
int nvrtcGetCUBINSize(void* a, size_t* b) { return ((int (*)(void*, size_t*))hip("hiprtcGetCodeSize"))(a, b); }
int nvrtcGetCUBIN(void* a, char* b) { return ((int (*)(void*, char*))hip("hiprtcGetCode"))(a, b); }
int nvrtcDestroyProgram(void** a) { return ((int (*)(void**))hip("hiprtcDestroyProgram"))(a); }
