// What a BLAS library needs before it can run a matmul: descriptors and an algorithm, one set per shape, in an LRU
// cache. Column-major, as these libraries expect: out (rows × tokens) = weightsᵀ · inputs.

import { GpuError } from "../../../errors.js";
import { LruCache } from "../../../lru.js";
import type { DeviceAddress, GpuDevice } from "../drivers/shared/driver.js";
import { gpuError } from "../drivers/shared/gpu-error.js";
import { addressOf, type BoundCalls, Outputs } from "../drivers/shared/ffi.js";
import { type AlgorithmChoices, choiceTokens } from "./algorithm-choices.js";
import { type ChoiceCalls, type MatrixCalls, type MatrixDialect, TYPE_F16, TYPE_F32 } from "./ffi.js";

/** A matmul's sizes: out[token][row] = Σ_k inputs[token][k] × weights[row][k]. */
export interface MatrixShape {
  readonly rows: number;
  readonly width: number;
  readonly tokens: number;
  /** Elements from one token to the next. */
  readonly inputStride: number;
  readonly outStride: number;
}

/** A shape as the key of a map. */
export function shapeKey({ rows, width, tokens, inputStride, outStride }: MatrixShape): string {
  return `${rows} ${width} ${tokens} ${inputStride} ${outStride}`;
}

/** A BLAS library that has been started on a device. */
export interface MatrixParts {
  readonly device: GpuDevice;
  readonly dialect: MatrixDialect;
  readonly bound: BoundCalls<MatrixCalls>;
  readonly library: string;
  readonly handle: bigint;
  readonly workspace: DeviceAddress;
  readonly workspaceBytes: number;
  readonly maxPlans: number;
  /** Absent if each shape gets a fresh choice. */
  readonly shared?: AlgorithmParts;
}

/** Choices that shapes with similar token counts share, and that a later process can reuse. */
export interface AlgorithmParts {
  readonly calls: ChoiceCalls;
  readonly choices: AlgorithmChoices;
  readonly identity: readonly unknown[];
}

/** A matmul's descriptors. */
interface Matmul {
  readonly operation: bigint;
  readonly weights: bigint;
  readonly inputs: bigint;
  readonly out: bigint;
}

interface MatrixPlan extends Matmul {
  /** Starts with the chosen algorithm. */
  readonly choice: ArrayBuffer;
  readonly choiceAddress: bigint;
}

/** Minimum alignment of every operand. */
const ALIGNMENT_BYTES = 16;

type Created = "createOperation" | "createLayout" | "createPreference";
const DESTROYERS = {
  createOperation: "destroyOperation",
  createLayout: "destroyLayout",
  createPreference: "destroyPreference",
} as const satisfies Record<Created, keyof MatrixCalls>;

/** Prepared matmuls of one BLAS library, the least recently used evicted first. */
export class MatrixPlans {
  readonly #parts: MatrixParts;
  readonly #calls: MatrixCalls;
  /** A plan is null if the library has no algorithm for the shape. */
  readonly #plans: LruCache<string, MatrixPlan | null>;
  readonly #outputs = new Outputs(16);

  constructor(parts: MatrixParts) {
    this.#parts = parts;
    this.#calls = parts.bound.calls;
    this.#plans = new LruCache({ maxEntries: parts.maxPlans, onRemove: (plan) => this.#destroy(plan) });
  }

  of(shape: MatrixShape): MatrixPlan | null {
    const key = shapeKey(shape);
    const known = this.#plans.get(key);
    if (known !== undefined) return known;
    const plan = this.#create(shape);
    this.#plans.set(key, plan);
    return plan;
  }

  clear(): void {
    this.#plans.clear();
  }

  #create(shape: MatrixShape): MatrixPlan | null {
    const made: (() => void)[] = [];
    let plan: MatrixPlan | null = null;
    try {
      const matmul = this.#describeMatmul(made, shape);
      const choice = this.#choiceFor(shape, matmul);
      if (choice !== undefined) plan = { ...matmul, choice, choiceAddress: addressOf(choice) };
    } finally {
      if (plan === null) for (const destroy of made) destroy();
    }
    return plan;
  }

  #describeMatmul(made: (() => void)[], { rows, width, tokens, inputStride, outStride }: MatrixShape): Matmul {
    const { dialect } = this.#parts;
    const operation = this.#describe(made, "createOperation", (out) =>
      this.#calls.createOperation(out, dialect.computeF32, TYPE_F32),
    );
    this.#setTransposed(operation, dialect.transposeLeft, true);
    this.#setTransposed(operation, dialect.transposeRight, false);
    const layout = (type: number, height: number, columns: number, stride: number): bigint =>
      this.#describe(made, "createLayout", (out) => this.#calls.createLayout(out, type, height, columns, stride));
    return {
      operation,
      weights: layout(TYPE_F16, width, rows, width),
      inputs: layout(TYPE_F16, width, tokens, inputStride),
      out: layout(TYPE_F32, rows, tokens, outStride),
    };
  }

  /**
   * The algorithm chosen for a similar token count by this process or an earlier one, if the BLAS library accepts it.
   */
  #choiceFor(shape: MatrixShape, matmul: Matmul): ArrayBuffer | undefined {
    const { shared } = this.#parts;
    if (shared === undefined) return this.#choose(matmul);
    const rounded = { ...shape, tokens: choiceTokens(shape.tokens) };
    const kept = shared.choices.get(shapeKey(rounded));
    const known = kept === undefined ? undefined : this.#checked(shared, kept, matmul);
    if (known !== undefined) return known;
    const chosen = rounded.tokens === shape.tokens ? this.#choose(matmul) : this.#chooseFor(rounded);
    if (chosen === undefined) return this.#choose(matmul);
    const algorithm = new Uint8Array(chosen);
    shared.choices.set(shapeKey(rounded), algorithm);
    return rounded.tokens === shape.tokens
      ? chosen
      : (this.#checked(shared, algorithm, matmul) ?? this.#choose(matmul));
  }

  #chooseFor(shape: MatrixShape): ArrayBuffer | undefined {
    const made: (() => void)[] = [];
    try {
      return this.#choose(this.#describeMatmul(made, shape));
    } finally {
      for (const destroy of made) destroy();
    }
  }

  /** The algorithm as a choice for this matmul; undefined if the BLAS library rejects it. */
  #checked(
    { calls }: AlgorithmParts,
    algorithm: Uint8Array,
    { operation, weights, inputs, out }: Matmul,
  ): ArrayBuffer | undefined {
    const { dialect, handle } = this.#parts;
    const choice = new ArrayBuffer(dialect.choiceBytes);
    new Uint8Array(choice).set(algorithm.subarray(0, dialect.choiceWorkspaceOffset));
    const answer = new ArrayBuffer(dialect.choiceBytes);
    const status = calls.checkAlgorithm(
      handle,
      operation,
      weights,
      inputs,
      out,
      out,
      addressOf(choice),
      addressOf(answer),
    );
    return status === 0 && this.#isUsable(answer) ? choice : undefined;
  }

  /** The BLAS library's first choice; undefined if it has none within the workspace. */
  #choose({ operation, weights, inputs, out }: Matmul): ArrayBuffer | undefined {
    const { dialect, handle, workspaceBytes } = this.#parts;
    const made: (() => void)[] = [];
    try {
      const preference = this.#describe(made, "createPreference", (address) => this.#calls.createPreference(address));
      this.#outputs.clear().view.setBigUint64(0, BigInt(workspaceBytes), true);
      this.#check(
        "setPreference",
        this.#calls.setPreference(preference, dialect.maxWorkspaceBytes, this.#outputs.address, 8),
      );
      this.#outputs.clear().view.setUint32(0, ALIGNMENT_BYTES, true);
      for (const attribute of dialect.alignments) {
        this.#check("setPreference", this.#calls.setPreference(preference, attribute, this.#outputs.address, 4));
      }
      const choice = new ArrayBuffer(dialect.choiceBytes);
      const { address } = this.#outputs.clear();
      const status = this.#calls.chooseAlgorithm(
        handle,
        operation,
        weights,
        inputs,
        out,
        out,
        preference,
        1,
        addressOf(choice),
        address,
      );
      return status === 0 && this.#outputs.int() >= 1 && this.#isUsable(choice) ? choice : undefined;
    } finally {
      for (const destroy of made) destroy();
    }
  }

  #isUsable(choice: ArrayBuffer): boolean {
    const { dialect, workspaceBytes } = this.#parts;
    const view = new DataView(choice);
    return (
      view.getBigUint64(dialect.choiceWorkspaceOffset, true) <= BigInt(workspaceBytes) &&
      view.getInt32(dialect.choiceStatusOffset, true) === 0
    );
  }

  #setTransposed(operation: bigint, attribute: number, transposed: boolean): void {
    const { dialect } = this.#parts;
    this.#outputs.clear().view.setInt32(0, transposed ? dialect.transposed : dialect.plain, true);
    this.#check("setOperation", this.#calls.setOperation(operation, attribute, this.#outputs.address, 4));
  }

  /** Creates a descriptor and records how to destroy it. */
  #describe(made: (() => void)[], name: Created, create: (out: bigint) => number): bigint {
    this.#check(name, create(this.#outputs.clear().address));
    const handle = this.#outputs.pointer();
    made.push(() => this.#calls[DESTROYERS[name]](handle));
    return handle;
  }

  #destroy(plan: MatrixPlan | null): void {
    if (plan === null) return;
    for (const layout of [plan.weights, plan.inputs, plan.out]) this.#calls.destroyLayout(layout);
    this.#calls.destroyOperation(plan.operation);
  }

  #check(call: keyof MatrixCalls, status: number): void {
    if (status !== 0) throw failedBlasCall(this.#parts, call, status, "while a matmul was being prepared");
  }
}

/** A BLAS status as text: number and name. */
export function statusText({ statusNames }: MatrixDialect, status: number): string {
  return `${status} (${statusNames[status] ?? "unknown"})`;
}

/** Errors caused by the BLAS library: the step can be computed without it. */
const failures = new WeakSet<object>();

/** Whether an error was caused by the BLAS library, so that the step can be repeated without it. */
export function isBlasFailure(error: unknown): error is GpuError {
  return error instanceof GpuError && failures.has(error);
}

/** An error's reason without place and advice. */
export function failureReason({ details }: GpuError): string {
  return String(details["reason"]);
}

/** Makes the `GpuError` for a failed call of the BLAS library. */
export function failedBlasCall(
  parts: MatrixParts,
  call: keyof MatrixCalls,
  status: number,
  circumstances: string,
): Error {
  const { dialect, device, bound, library } = parts;
  const error = gpuError({
    kind: status === dialect.allocationFailed ? "out of memory" : "launch",
    place: `${device.kind} device ${device.properties.index}`,
    what: `${bound.symbols[call]} returned ${statusText(dialect, status)} ${circumstances}`,
    details: { driver: device.kind, call: bound.symbols[call], number: status, library },
  });
  failures.add(error);
  return error;
}
