// Verifies the BLAS library: the first matmul of every shape is sampled by a kernel of our own (kernels/rows/check.hip)
// right after it, on the data of the step that runs it, and the step's results are held back until the samples are
// evaluated. Shapes that were right are not checked again.

import type { DeviceBlock } from "../memory/device-memory.js";
import type { PinnedMemory, StreamHandle } from "../drivers/shared/driver.js";
import { CHECK_FILE } from "../drivers/shared/checks.js";
import type { LoadedKernel } from "../kernels/kernel-store.js";
import type { GpuRuntime } from "../memory/runtime.js";
import type { BlasMatmul } from "./blas-library.js";
import { type MatrixShape, shapeKey } from "./matmul-plan.js";

const FOUND_BYTES = 8;
/** kSampleTile of kernels/rows/check.hip. */
const SAMPLE_TILE = 16;
/** Maximum number of verified shapes that are remembered; prompts have many lengths. */
const MAX_SHAPES = 8192;

interface CheckMemory {
  readonly kernel: LoadedKernel;
  readonly found: DeviceBlock;
  readonly pinned: PinnedMemory;
}

/** Samples the BLAS library's matmuls of a step and compares them with our own results. */
export class MatmulCheck implements Disposable {
  readonly #runtime: GpuRuntime;
  readonly #right = new Set<string>();
  /** Shapes sampled in the current step. */
  readonly #pending = new Map<string, MatrixShape>();
  #memory: CheckMemory | undefined;

  constructor(runtime: GpuRuntime) {
    this.#runtime = runtime;
  }

  /** Allocates memory and loads the kernel; call before the first matmul of a step. */
  async prepare(): Promise<void> {
    this.#pending.clear();
    if (this.#memory !== undefined) return;
    const kernel = (await this.#runtime.kernels.module(CHECK_FILE)).kernel("check_matmul");
    const found = this.#runtime.allocate("the check of large matmuls", FOUND_BYTES);
    this.#memory = { kernel, found, pinned: this.#runtime.device.allocateHost(FOUND_BYTES) };
  }

  /** Samples a matmul; call right after it, while its inputs and result are unchanged. */
  queue(matmul: BlasMatmul): void {
    const key = shapeKey(matmul);
    if (this.#memory === undefined || this.#right.has(key) || this.#pending.has(key)) return;
    const { device } = this.#runtime;
    const { kernel, found } = this.#memory;
    const { weights, inputs, out, rows, width, tokens, stream } = matmul;
    if (this.#pending.size === 0) device.fill(found.address, 0, FOUND_BYTES, stream);
    this.#pending.set(key, { rows, width, tokens, inputStride: matmul.inputStride, outStride: matmul.outStride });
    const { block } = kernel.createArguments().set({
      weights,
      inputs,
      out,
      found: found.address,
      rows,
      width,
      tokens,
      input_stride: matmul.inputStride,
      out_stride: matmul.outStride,
    });
    const waves = kernel.threads / device.properties.waveSize;
    const grid = [Math.ceil(Math.ceil(rows / SAMPLE_TILE) / waves), Math.ceil(tokens / SAMPLE_TILE), 1] as const;
    device.launch(kernel.handle, { grid, threads: kernel.threads, sharedBytes: 0, dependent: false }, block, stream);
  }

  /** Queues the copy of the samples' result, together with the step's results. */
  queueFinding(stream: StreamHandle): void {
    if (this.#pending.size === 0 || this.#memory === undefined) return;
    const { found, pinned } = this.#memory;
    this.#runtime.device.copyToHost(pinned.address, found.address, FOUND_BYTES, stream);
  }

  /** What was wrong with the BLAS library's matmuls in a finished step; undefined if nothing was. */
  finding(): string | undefined {
    if (this.#pending.size === 0 || this.#memory === undefined) return undefined;
    const { bytes } = this.#memory.pinned;
    const view = new DataView(bytes.buffer, bytes.byteOffset, FOUND_BYTES);
    const [judged, wrong] = [view.getUint32(0, true), view.getUint32(4, true)];
    const shapes = [...this.#pending.values()];
    // A step without finite numbers proves nothing.
    if (judged > 0 && wrong === 0) this.#trust();
    this.#pending.clear();
    if (wrong === 0) return undefined;
    const list = shapes.map(({ rows, width, tokens }) => `${rows} × ${width} × ${tokens}`).join(", ");
    return `${wrong} of ${judged} samples of its matmuls were wrong (among ${list})`;
  }

  /** Discards the samples of a step that did not finish. */
  forget(): void {
    this.#pending.clear();
  }

  /** Within `release` of the runtime. */
  [Symbol.dispose](): void {
    if (this.#memory === undefined) return;
    this.#runtime.memory.free(this.#memory.found);
    this.#runtime.device.freeHost(this.#memory.pinned);
    this.#memory = undefined;
  }

  #trust(): void {
    if (this.#right.size > MAX_SHAPES) this.#right.clear();
    for (const key of this.#pending.keys()) this.#right.add(key);
  }
}
