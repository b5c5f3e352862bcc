// The codes of HIP and hiprtc that the test double gives, with the numbers that programs compiled for the real libraries
// know. Only these have names here; any other number is "unknown" to hipGetErrorName, as it is there.
#pragma once

namespace emulator {

enum Status : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kInvalidConfiguration = 9,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kNoBinaryForGpu = 209,
  kInvalidHandle = 400,
  kIllegalState = 401,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kLaunchOutOfResources = 701,
  kHostMemoryAlreadyRegistered = 712,
  kHostMemoryNotRegistered = 713,
  kLaunchFailure = 719,
  kStreamCaptureUnsupported = 900,
  kStreamCaptureInvalidated = 901,
  kStreamCaptureMerge = 902,
  kStreamCaptureUnmatched = 903,
  kStreamCaptureUnjoined = 904,
  kStreamCaptureIsolation = 905,
  kStreamCaptureImplicit = 906,
  kCapturedEvent = 907,
  kStreamCaptureWrongThread = 908,
  kUnknown = 999,
};

enum CompilerStatus : int {
  kCompilerSuccess = 0,
  kCompilerInvalidInput = 3,
  kCompilerInvalidProgram = 4,
  kCompilerInvalidOption = 5,
  kCompilerCompilation = 6,
  kCompilerInternalError = 11,
};

const char* name_of(int status);
const char* text_of(int status);
const char* compiler_text_of(int status);

}  // namespace emulator
