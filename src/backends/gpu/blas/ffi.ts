// The functions of cuBLASLt and hipBLASLt, from `cublasLt.h` of CUDA 12 and `hipblaslt.h` of ROCm 6: C prototypes under
// this project's names, the values of the few enumerators in use, and the file names of the libraries. Both have the
// same functions with the same parameters; all pointers are `void *` here, see drivers/shared/ffi.ts.

import type { DriverKind } from "../drivers/shared/driver.js";
import { namesIn, rocmFolders } from "../drivers/hip/rocm-folders.js";
import type { NativeCall, Prototypes } from "../drivers/shared/ffi.js";
import { foldersLike } from "../drivers/shared/library-folders.js";

/** The matmul functions that cuBLASLt and hipBLASLt share; `out` is the address that a result is written to. */
export interface MatrixCalls {
  readonly create: NativeCall<[out: bigint]>;
  readonly destroy: NativeCall<[handle: bigint]>;
  readonly createOperation: NativeCall<[out: bigint, computeType: number, scaleType: number]>;
  readonly destroyOperation: NativeCall<[operation: bigint]>;
  readonly setOperation: NativeCall<[operation: bigint, attribute: number, value: bigint, sizeBytes: number]>;
  readonly createLayout: NativeCall<[out: bigint, type: number, rows: number, columns: number, stride: number]>;
  readonly destroyLayout: NativeCall<[layout: bigint]>;
  readonly createPreference: NativeCall<[out: bigint]>;
  readonly destroyPreference: NativeCall<[preference: bigint]>;
  readonly setPreference: NativeCall<[preference: bigint, attribute: number, value: bigint, sizeBytes: number]>;
  readonly chooseAlgorithm: NativeCall<
    [
      handle: bigint,
      operation: bigint,
      left: bigint,
      right: bigint,
      addend: bigint,
      result: bigint,
      preference: bigint,
      wanted: number,
      outChoices: bigint,
      outCount: bigint,
    ]
  >;
  readonly multiply: NativeCall<
    [
      handle: bigint,
      operation: bigint,
      alpha: bigint,
      left: bigint,
      leftLayout: bigint,
      right: bigint,
      rightLayout: bigint,
      beta: bigint,
      addend: bigint,
      addendLayout: bigint,
      result: bigint,
      resultLayout: bigint,
      algorithm: bigint,
      workspace: bigint,
      workspaceBytes: number,
      stream: bigint,
    ]
  >;
}

/** Further functions that are needed to use an algorithm for another shape or in a later process. */
export interface ChoiceCalls {
  readonly version: NativeCall<[]>;
  /** Whether an algorithm can compute a matmul; writes a choice with its workspace size. */
  readonly checkAlgorithm: NativeCall<
    [
      handle: bigint,
      operation: bigint,
      left: bigint,
      right: bigint,
      addend: bigint,
      result: bigint,
      algorithm: bigint,
      outChoice: bigint,
    ]
  >;
}

function prototypes(prefix: "cublasLt" | "hipblasLt"): Prototypes<MatrixCalls> {
  return {
    create: `int ${prefix}Create(void *out)`,
    destroy: `int ${prefix}Destroy(void *handle)`,
    createOperation: `int ${prefix}MatmulDescCreate(void *out, int computeType, int scaleType)`,
    destroyOperation: `int ${prefix}MatmulDescDestroy(void *operation)`,
    setOperation: `int ${prefix}MatmulDescSetAttribute(void *operation, int attribute, void *value, size_t size)`,
    createLayout: `int ${prefix}MatrixLayoutCreate(void *out, int type, uint64_t rows, uint64_t columns, int64_t stride)`,
    destroyLayout: `int ${prefix}MatrixLayoutDestroy(void *layout)`,
    createPreference: `int ${prefix}MatmulPreferenceCreate(void *out)`,
    destroyPreference: `int ${prefix}MatmulPreferenceDestroy(void *preference)`,
    setPreference: `int ${prefix}MatmulPreferenceSetAttribute(void *preference, int attribute, void *value, size_t size)`,
    chooseAlgorithm: `int ${prefix}MatmulAlgoGetHeuristic(void *handle, void *operation, void *left, void *right, void *addend, void *result, void *preference, int wanted, void *choices, void *count)`,
    multiply: `int ${prefix}Matmul(void *handle, void *operation, void *alpha, void *left, void *leftLayout, void *right, void *rightLayout, void *beta, void *addend, void *addendLayout, void *result, void *resultLayout, void *algorithm, void *workspace, size_t workspaceBytes, void *stream)`,
  };
}

/** What differs between cuBLASLt and hipBLASLt: symbols, enumerators, struct layouts. */
export interface MatrixDialect {
  /** Human-readable name. */
  readonly what: string;
  readonly variable: string;
  readonly prototypes: Prototypes<MatrixCalls>;
  /** Absent if the library's C functions cannot check an algorithm: then each shape gets a fresh choice. */
  readonly choicePrototypes?: Prototypes<ChoiceCalls>;
  readonly computeF32: number;
  /** Operation attribute for whether the left matrix is transposed. */
  readonly transposeLeft: number;
  readonly transposeRight: number;
  readonly transposed: number;
  readonly plain: number;
  /** Preference attribute. */
  readonly maxWorkspaceBytes: number;
  /** Preference attributes for the alignment of addresses, if the library assumes a larger one by default. */
  readonly alignments: readonly number[];
  /** Size of one choice (`…MatmulHeuristicResult_t`): the algorithm, then the workspace it needs, then its status. */
  readonly choiceBytes: number;
  readonly choiceWorkspaceOffset: number;
  readonly choiceStatusOffset: number;
  readonly statusNames: Readonly<Record<number, string>>;
  readonly allocationFailed: number;
}

/** Type number of f32 in both libraries (CUDA_R_32F, HIP_R_32F). */
export const TYPE_F32 = 0;
/** Type number of f16 in both libraries (CUDA_R_16F, HIP_R_16F). */
export const TYPE_F16 = 2;

const CUBLASLT: MatrixDialect = {
  what: "cuBLASLt",
  variable: "ROCMFORGE_CUBLASLT_LIBRARY",
  prototypes: prototypes("cublasLt"),
  choicePrototypes: {
    version: "size_t cublasLtGetVersion()",
    checkAlgorithm:
      "int cublasLtMatmulAlgoCheck(void *handle, void *operation, void *left, void *right, void *addend, void *result, void *algorithm, void *choice)",
  },
  computeF32: 68,
  transposeLeft: 3,
  transposeRight: 4,
  transposed: 1,
  plain: 0,
  maxWorkspaceBytes: 1,
  alignments: [5, 6, 7, 8],
  choiceBytes: 96,
  choiceWorkspaceOffset: 64,
  choiceStatusOffset: 72,
  statusNames: {
    1: "not initialised",
    3: "allocation failed",
    7: "invalid value",
    8: "architecture mismatch",
    11: "mapping error",
    13: "execution failed",
    14: "internal error",
    15: "not supported",
  },
  allocationFailed: 3,
};

const HIPBLASLT: MatrixDialect = {
  what: "hipBLASLt",
  variable: "ROCMFORGE_HIPBLASLT_LIBRARY",
  prototypes: prototypes("hipblasLt"),
  computeF32: 2,
  transposeLeft: 0,
  transposeRight: 1,
  transposed: 112,
  plain: 111,
  maxWorkspaceBytes: 1,
  alignments: [],
  choiceBytes: 56,
  choiceWorkspaceOffset: 24,
  choiceStatusOffset: 32,
  statusNames: {
    1: "not initialised",
    2: "allocation failed",
    3: "invalid value",
    4: "mapping error",
    5: "execution failed",
    6: "internal error",
    7: "not supported",
    8: "architecture mismatch",
    9: "no handle",
    10: "invalid enumerator",
    11: "unknown",
  },
  allocationFailed: 2,
};

/** The BLAS library of each driver. */
export const DIALECTS: Readonly<Record<DriverKind, MatrixDialect>> = { cuda: CUBLASLT, hip: HIPBLASLT };

/** File names of the driver's BLAS library, newest first; system folders come before the driver's usual ones. */
export function libraryNames(kind: DriverKind): readonly string[] {
  return kind === "cuda"
    ? namesIn(["libcublasLt.so.13", "libcublasLt.so.12"], foldersLike("/usr/local", /^cuda(?:-[\d.]+)?$/, "lib64"))
    : namesIn(["libhipblaslt.so.1", "libhipblaslt.so.0", "libhipblaslt.so"], rocmFolders());
}
