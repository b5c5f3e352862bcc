// Stacks of experts in files of old converters, which wrote each expert's matrix as a tensor of its own
// (`blk.0.ffn_gate.7.weight`). They are presented as the one tensor that later converters write
// (`blk.0.ffn_gate_exps.weight`, one matrix after the other), so that no other code knows the difference.

import type { GgufTensor } from "../gguf/file.js";
import type { TensorDescriptor } from "../tensor/descriptor.js";

const EXPERT = /^(.*\.ffn_(?:gate|up|down))\.(\d{1,5})\.weight$/;

/** A tensor that is made of the tensors of single experts. */
export interface StackedTensor {
  readonly descriptor: TensorDescriptor;
  /** In order of the experts; all have the same size. */
  readonly parts: readonly GgufTensor[];
}

/** Stacks of experts by their names. Experts that do not fit together are left out, and reported as a missing tensor. */
export function stackExperts(tensors: ReadonlyMap<string, GgufTensor>): ReadonlyMap<string, StackedTensor> {
  const experts = new Map<string, GgufTensor[]>();
  for (const [name, tensor] of tensors) {
    const match = EXPERT.exec(name);
    if (match === null) continue;
    const stack = `${match[1]}_exps.weight`;
    const parts = experts.get(stack) ?? [];
    experts.set(stack, parts);
    parts[Number(match[2])] = tensor;
  }
  const stacks = new Map<string, StackedTensor>();
  for (const [name, parts] of experts) {
    if (!tensors.has(name) && fitTogether(parts)) stacks.set(name, { descriptor: stackOf(name, parts), parts });
  }
  return stacks;
}

function fitTogether(parts: readonly (GgufTensor | undefined)[]): parts is readonly GgufTensor[] {
  const [first] = parts;
  if (first === undefined || first.shape.length !== 2) return false;
  for (let expert = 0; expert < parts.length; expert++) {
    const part = parts[expert];
    const isAlike =
      part !== undefined &&
      part.layout === first.layout &&
      part.shape.length === 2 &&
      part.shape.every((length, axis) => length === first.shape[axis]);
    if (!isAlike) return false;
  }
  return true;
}

function stackOf(name: string, parts: readonly GgufTensor[]): TensorDescriptor {
  const [{ layout, shape, elements, sizeBytes }] = parts;
  return {
    name,
    layout,
    shape: [...shape, parts.length],
    elements: elements * parts.length,
    sizeBytes: sizeBytes * parts.length,
  };
}

/** Fills `target` with the stack's bytes from `byteOffset` on; `read` reads bytes of one part. */
export async function readStack(
  { parts }: StackedTensor,
  target: Uint8Array,
  byteOffset: number,
  read: (part: GgufTensor, target: Uint8Array, byteOffset: number) => Promise<void>,
): Promise<void> {
  const [{ sizeBytes: partBytes }] = parts;
  for (let filled = 0; filled < target.byteLength;) {
    const position = byteOffset + filled;
    const within = position % partBytes;
    const length = Math.min(partBytes - within, target.byteLength - filled);
    await read(parts[Math.floor(position / partBytes)], target.subarray(filled, filled + length), within);
    filled += length;
  }
}
