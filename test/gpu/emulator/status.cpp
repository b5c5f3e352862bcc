// Names and sentences of the codes in status.h.
#include "status.h"

namespace emulator {
namespace {

struct Entry {
  int status;
  const char* name;
  const char* text;
};

constexpr Entry kEntries[] = {
    {kSuccess, "hipSuccess", "no error"},
    {kInvalidValue, "hipErrorInvalidValue", "invalid argument"},
    {kOutOfMemory, "hipErrorOutOfMemory", "out of memory"},
    {kNotInitialized, "hipErrorNotInitialized", "initialization error"},
    {kInvalidConfiguration, "hipErrorInvalidConfiguration", "invalid configuration argument"},
    {kNoDevice, "hipErrorNoDevice", "no ROCm-capable device is detected"},
    {kInvalidDevice, "hipErrorInvalidDevice", "invalid device ordinal"},
    {kInvalidImage, "hipErrorInvalidImage", "device kernel image is invalid"},
    {kNoBinaryForGpu, "hipErrorNoBinaryForGpu", "no kernel image is available for execution on the device"},
    {kInvalidHandle, "hipErrorInvalidHandle", "invalid resource handle"},
    {kIllegalState, "hipErrorIllegalState", "the operation cannot be performed in the present state"},
    {kNotFound, "hipErrorNotFound", "named symbol not found"},
    {kNotReady, "hipErrorNotReady", "device not ready"},
    {kIllegalAddress, "hipErrorIllegalAddress", "an illegal memory access was encountered"},
    {kLaunchOutOfResources, "hipErrorLaunchOutOfResources", "too many resources requested for launch"},
    {kHostMemoryAlreadyRegistered, "hipErrorHostMemoryAlreadyRegistered",
     "part or all of the requested memory range is already mapped"},
    {kHostMemoryNotRegistered, "hipErrorHostMemoryNotRegistered",
     "pointer does not correspond to a registered memory region"},
    {kLaunchFailure, "hipErrorLaunchFailure", "unspecified launch failure"},
    {kStreamCaptureUnsupported, "hipErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing"},
    {kStreamCaptureInvalidated, "hipErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {kStreamCaptureMerge, "hipErrorStreamCaptureMerge",
     "operation would result in a merge of separate capture sequences"},
    {kStreamCaptureUnmatched, "hipErrorStreamCaptureUnmatched", "capture was not ended in the same stream as it began"},
    {kStreamCaptureUnjoined, "hipErrorStreamCaptureUnjoined", "capturing stream has unjoined work"},
    {kStreamCaptureIsolation, "hipErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
    {kStreamCaptureImplicit, "hipErrorStreamCaptureImplicit",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {kCapturedEvent, "hipErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capturing stream"},
    {kStreamCaptureWrongThread, "hipErrorStreamCaptureWrongThread",
     "attempt to terminate a thread-local capture sequence from another thread"},
    {kUnknown, "hipErrorUnknown", "unknown error"},
};

const Entry& entry_of(int status) {
  for (const Entry& entry : kEntries) {
    if (entry.status == status) return entry;
  }
  return kEntries[sizeof(kEntries) / sizeof(Entry) - 1];
}

}  // namespace

const char* name_of(int status) { return entry_of(status).name; }
const char* text_of(int status) { return entry_of(status).text; }

const char* compiler_text_of(int status) {
  switch (status) {
    case kCompilerSuccess: return "HIPRTC_SUCCESS";
    case kCompilerInvalidInput: return "HIPRTC_ERROR_INVALID_INPUT";
    case kCompilerInvalidProgram: return "HIPRTC_ERROR_INVALID_PROGRAM";
    case kCompilerInvalidOption: return "HIPRTC_ERROR_INVALID_OPTION";
    case kCompilerCompilation: return "HIPRTC_ERROR_COMPILATION";
    case kCompilerInternalError: return "HIPRTC_ERROR_INTERNAL_ERROR";
    default: return "Invalid HIPRTC error code";
  }
}

}  // namespace emulator
