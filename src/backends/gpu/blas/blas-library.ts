// The BLAS library on one device: matmuls of f16 rows with unpacked weights, f32 out. A shape's descriptors and
// algorithm are created once and kept, so that a prepared matmul allocates nothing and can be captured into a graph.
// All matmuls share one workspace: an instance belongs to one stream and is disposed before its device.

import { Lifetime } from "../../../lifetime.js";
import type { DeviceAddress, GpuDevice, StreamHandle } from "../drivers/shared/driver.js";
import { gpuError } from "../drivers/shared/gpu-error.js";
import type { UnavailableDriver } from "../drivers/shared/driver-library.js";
import {
  bindCalls,
  libraryFile,
  loadInBackground,
  type NativeLibrary,
  openLibrary,
  Outputs,
} from "../drivers/shared/ffi.js";
import { AlgorithmChoices } from "./algorithm-choices.js";
import { type ChoiceCalls, DIALECTS, libraryNames, type MatrixCalls, type MatrixDialect } from "./ffi.js";
import {
  type AlgorithmParts,
  failedBlasCall,
  type MatrixParts,
  MatrixPlans,
  type MatrixShape,
  statusText,
} from "./matmul-plan.js";

/** One matmul with its operands on the device. */
export interface BlasMatmul extends MatrixShape {
  /** f16 [rows][width]. */
  readonly weights: DeviceAddress;
  /** f16. */
  readonly inputs: DeviceAddress;
  /** f32. */
  readonly out: DeviceAddress;
  readonly stream: StreamHandle;
}

/** cuBLASLt or hipBLASLt on one device, for the matmuls of one stream. */
export interface BlasLibrary extends Disposable {
  /** The library's file. */
  readonly library: string;
  /** Algorithms chosen so far; undefined if they apply only to the shapes they were chosen for. */
  readonly kept: KeptChoices | undefined;
  /** Prepares a shape; false if the BLAS library has no algorithm for it. */
  prepare(shape: MatrixShape): boolean;
  /** Queues a matmul. The device must be the thread's current one, as it is right after another call on it. */
  multiply(matmul: BlasMatmul): void;
}

/** Algorithms that a later process can use. */
export interface KeptChoices {
  readonly choices: AlgorithmChoices;
  /** Name, version and file: algorithms are valid for this library only. */
  readonly identity: readonly unknown[];
}

interface BlasLibraryOptions {
  readonly workspaceBytes?: number;
  /** Maximum number of prepared shapes; the least recently used is evicted. */
  readonly maxPlans?: number;
}

/** NVIDIA's recommendation for Hopper; older cards and AMD's need less. */
const DEFAULT_WORKSPACE_BYTES = 32 * 2 ** 20;
const DEFAULT_MAX_PLANS = 512;

/** Loads the BLAS library's file of hundreds of megabytes on another thread. `openBlasLibrary` reports failures. */
export async function loadBlasLibrary({ kind }: Pick<GpuDevice, "kind">): Promise<void> {
  const forced = process.env[DIALECTS[kind].variable];
  await loadInBackground(forced !== undefined && forced !== "" ? [forced] : libraryNames(kind));
}

/**
 * Opens the BLAS library for a device, or returns why there is none. If one version fails to start, the next is tried.
 */
export function openBlasLibrary(device: GpuDevice, options: BlasLibraryOptions = {}): BlasLibrary | UnavailableDriver {
  const dialect = DIALECTS[device.kind];
  const forced = process.env[dialect.variable];
  const isForced = forced !== undefined && forced !== "";
  const names = isForced ? [forced] : libraryNames(device.kind);
  const reasons: string[] = [];
  for (const name of names) {
    const library = openLibrary([name]);
    if ("missing" in library) {
      if (library.missing === "broken" || isForced) reasons.push(library.reason);
      continue;
    }
    const started = start(device, dialect, library, options);
    if (typeof started !== "string") return started;
    reasons.push(started);
  }
  if (isForced) {
    return {
      reason: `${dialect.variable} names a library that cannot be used: ${reasons.join("; ")}`,
      remedy: `correct or unset ${dialect.variable}`,
      expected: false,
    };
  }
  if (reasons.length === 0) {
    return {
      reason: `${dialect.what} is not installed`,
      remedy: `install ${dialect.what} for faster prefill`,
      expected: true,
    };
  }
  return {
    reason: `${dialect.what} cannot be used: ${reasons.join("; ")}`,
    remedy: `reinstall ${dialect.what}`,
    expected: false,
  };
}

function start(
  device: GpuDevice,
  dialect: MatrixDialect,
  library: NativeLibrary,
  options: BlasLibraryOptions,
): BlasLibrary | string {
  const bound = bindCalls<MatrixCalls>(library, dialect.prototypes);
  if ("lacking" in bound) return `${library.name} has no ${bound.lacking.join(", ")}`;
  // Makes the device current, which is the one that the BLAS library uses.
  device.memory();
  const out = new Outputs(8);
  const status = bound.calls.create(out.address);
  if (status !== 0) return `${bound.symbols.create} of ${library.name} returned ${statusText(dialect, status)}`;
  const { workspaceBytes = DEFAULT_WORKSPACE_BYTES, maxPlans = DEFAULT_MAX_PLANS } = options;
  let workspace: DeviceAddress;
  try {
    workspace = device.allocate(workspaceBytes);
  } catch (error) {
    bound.calls.destroy(out.pointer());
    throw error;
  }
  const shared = choiceParts(dialect, library);
  const parts = {
    device,
    dialect,
    bound,
    library: library.name,
    handle: out.pointer(),
    workspace,
    workspaceBytes,
    maxPlans,
  };
  return new LtLibrary({ ...parts, ...(shared === undefined ? {} : { shared }) });
}

/** Undefined if the BLAS library cannot check an algorithm against a matmul, or does not report its version. */
function choiceParts(
  { what, choicePrototypes, choiceWorkspaceOffset }: MatrixDialect,
  library: NativeLibrary,
): AlgorithmParts | undefined {
  if (choicePrototypes === undefined) return undefined;
  const bound = bindCalls<ChoiceCalls>(library, choicePrototypes);
  if ("lacking" in bound) return undefined;
  const identity = [what, bound.calls.version(), libraryFile(library) ?? library.name];
  return { calls: bound.calls, choices: new AlgorithmChoices(choiceWorkspaceOffset), identity };
}

class LtLibrary implements BlasLibrary {
  readonly library: string;
  readonly kept: KeptChoices | undefined;
  readonly #parts: MatrixParts;
  readonly #calls: MatrixCalls;
  readonly #lifetime: Lifetime;
  readonly #plans: MatrixPlans;
  /** One and zero, as f32. */
  readonly #factors = new Outputs(8);

  constructor(parts: MatrixParts) {
    this.library = parts.library;
    this.kept = parts.shared;
    this.#parts = parts;
    this.#calls = parts.bound.calls;
    this.#plans = new MatrixPlans(parts);
    this.#lifetime = new Lifetime(parts.dialect.what);
    this.#factors.view.setFloat32(0, 1, true);
  }

  prepare(shape: MatrixShape): boolean {
    this.#lifetime.assertAlive();
    return this.#plans.of(shape) !== null;
  }

  multiply(matmul: BlasMatmul): void {
    this.#lifetime.assertAlive();
    const plan = this.#plans.of(matmul);
    if (plan === null) throw this.#unsupported(matmul);
    const { handle, workspace, workspaceBytes } = this.#parts;
    const one = this.#factors.address;
    const status = this.#calls.multiply(
      handle,
      plan.operation,
      one,
      matmul.weights,
      plan.weights,
      matmul.inputs,
      plan.inputs,
      one + 4n,
      matmul.out,
      plan.out,
      matmul.out,
      plan.out,
      plan.choiceAddress,
      workspace,
      workspaceBytes,
      matmul.stream,
    );
    if (status !== 0)
      throw failedBlasCall(
        this.#parts,
        "multiply",
        status,
        `for ${matmul.rows} × ${matmul.width} weights and ${matmul.tokens} tokens`,
      );
  }

  [Symbol.dispose](): void {
    if (!this.#lifetime.end()) return;
    this.#plans.clear();
    this.#calls.destroy(this.#parts.handle);
    this.#parts.device.free(this.#parts.workspace);
  }

  #unsupported({ rows, width, tokens }: MatrixShape): Error {
    const { dialect, device } = this.#parts;
    return gpuError({
      kind: "internal",
      place: `${device.kind} device ${device.properties.index}`,
      what: `${dialect.what} has no algorithm for ${rows} × ${width} weights and ${tokens} tokens`,
      details: { driver: device.kind, rows, width, tokens, library: this.library },
    });
  }
}
