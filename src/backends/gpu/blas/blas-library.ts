// The BLAS library on one device: matmuls of half rows with unpacked weights, f32 out. A shape's descriptors and chosen
// algorithm are made once and kept, so that a matmul that was prepared allocates nothing and can be recorded into a
// graph. All matmuls share one workspace: an object of this class belongs to one stream, and ends before its device.

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

export interface BlasMatmul extends MatrixShape {
  /** f16 [rows][width]. */
  readonly weights: DeviceAddress;
  /** f16. */
  readonly inputs: DeviceAddress;
  /** f32. */
  readonly out: DeviceAddress;
  readonly stream: StreamHandle;
}

export interface BlasLibrary extends Disposable {
  /** The file that answers. */
  readonly library: string;
  /** What it has chosen so far; undefined if its choices are good for nothing but the shapes they were made for. */
  readonly kept: KeptChoices | undefined;
  /** False if the BLAS library has no way to compute a matmul of this shape. */
  prepare(shape: MatrixShape): boolean;
  /** Right after another call on the device, which makes that device the thread's current one. */
  multiply(matmul: BlasMatmul): void;
}

export interface KeptChoices {
  readonly choices: AlgorithmChoices;
  /** Name, version and file: algorithms of another library mean nothing to this one. */
  readonly identity: readonly unknown[];
}

interface BlasLibraryOptions {
  readonly workspaceBytes?: number;
  /** Shapes that stay prepared; the one that was not used for longest goes first. */
  readonly maxPlans?: number;
}

/** What NVIDIA advises for Hopper; older cards and AMD's do with less. */
const DEFAULT_WORKSPACE_BYTES = 32 * 2 ** 20;
const DEFAULT_MAX_PLANS = 512;

/**
 * Loads the BLAS library's file on another thread: it has hundreds of megabytes.
 * What is wrong with it is reported by `openBlasLibrary`.
 */
export async function loadBlasLibrary({ kind }: Pick<GpuDevice, "kind">): Promise<void> {
  const forced = process.env[DIALECTS[kind].variable];
  await loadInBackground(forced !== undefined && forced !== "" ? [forced] : libraryNames(kind));
}

/**
 * Makes the BLAS library ready for a device, or says why there is none. Tries the next version where one does not
 * start.
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
      remedy: `install ${dialect.what} for faster prompts`,
      expected: true,
    };
  }
  return {
    reason: `${dialect.what} cannot be used: ${reasons.join("; ")}`,
    remedy: `install ${dialect.what} anew`,
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
  // Makes the device current: the BLAS library takes what it finds.
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

/** Undefined if the BLAS library cannot tell whether an algorithm suits a matmul, or not which version it is. */
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
