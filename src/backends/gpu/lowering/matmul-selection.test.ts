import { describe, expect, it } from "vitest";
import { layoutByName, type SupportedTypeName } from "../../../quant/layout.js";
import type { TensorDescriptor } from "../../../tensor/descriptor.js";
import { matmulMethod, batchClass } from "./matmul-selection.js";

function weight(type: SupportedTypeName, width = 4096, rows = 4096): TensorDescriptor {
  return { name: "w", layout: layoutByName(type), shape: [width, rows], elements: width * rows, sizeBytes: 0 };
}

const ANY = { deterministic: false, blas: true };

describe("matmulMethod", () => {
  it("takes GEMV for small batches, GEMM for larger ones and BLAS for the largest", () => {
    expect([1, 8, 9, 33, 383, 384, 4096].map((rows) => matmulMethod(weight("Q4_K"), batchClass(rows), ANY))).toEqual([
      "gemv",
      "gemv",
      "gemm",
      "gemm",
      "gemm",
      "blas",
      "blas",
    ]);
  });

  it("keeps plain floats as they are a little longer", () => {
    expect([8, 32, 33, 400].map((rows) => matmulMethod(weight("F16"), batchClass(rows), ANY))).toEqual([
      "gemv-float",
      "gemv-float",
      "gemm",
      "blas",
    ]);
  });

  it("keeps the logits of routers f32 in every batch", () => {
    const router = { ...ANY, router: true };
    expect([8, 32, 33, 400].map((rows) => matmulMethod(weight("F32"), batchClass(rows), router))).toEqual([
      "gemv-float",
      "gemv-float",
      "gemv-float",
      "gemm-float",
    ]);
    expect(matmulMethod(weight("Q8_0"), "large", router)).toBe("gemm");
  });

  it("keeps F32 weights beside recurrent states f32 in every batch, and the few rows of gates from waiting for tiles", () => {
    const methodsOf = (rows: number): readonly string[] =>
      [8, 32, 33, 400].map((count) =>
        matmulMethod(weight("F32", 2048, rows), batchClass(count), { ...ANY, exact: true }),
      );
    expect(methodsOf(32)).toEqual(["gemv-float", "gemv-float", "gemv-float", "gemm-float"]);
    expect(methodsOf(2048)).toEqual(["gemv-float", "gemv-float", "gemm-float", "gemm-float"]);
  });

  it("takes products of bytes where they are said to take less time, but not in small batches, nor instead of BLAS", () => {
    const methods = [8, 9, 33, 384].map((rows) =>
      matmulMethod(weight("Q8_0"), batchClass(rows), { ...ANY, int8: true }),
    );
    expect(methods).toEqual(["gemv", "int8-gemm", "int8-gemm", "blas"]);
    expect(matmulMethod(weight("Q8_0"), "huge", { ...ANY, int8: true, blas: false })).toBe("int8-gemm");
    expect(matmulMethod(weight("Q8_0"), "large", { ...ANY, int8: true, deterministic: true })).toBe("gemv");
  });

  it("does without a BLAS library if there is none, or if dequantizing would take too much memory", () => {
    expect(matmulMethod(weight("Q4_K"), "huge", { ...ANY, blas: false })).toBe("gemm");
    expect(matmulMethod(weight("Q4_K", 4096, 128_256), "huge", ANY)).toBe("gemm");
  });

  it("never takes GEMM in deterministic mode, nor for widths that matrix units do not take", () => {
    expect(matmulMethod(weight("Q4_K"), "huge", { ...ANY, deterministic: true })).toBe("gemv");
    expect(matmulMethod(weight("F32", 100), "huge", ANY)).toBe("gemv-float");
  });
});
