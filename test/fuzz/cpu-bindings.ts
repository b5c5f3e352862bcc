// Mutates the arguments of the native bindings: programs, weight locations, steps, caches. The addon trusts nothing that
// TypeScript has checked, so every mutation must be refused with a native error or computed in bounds.

import type {
  NativeAddon,
  NativeKvOptions,
  NativeProgramSpec,
  NativeStepInput,
  NativeWeightLocation,
} from "../../src/backends/cpu/native-bindings.js";
import { isNativeError } from "../../src/backends/cpu/native-error.js";
import { OPERATIONS } from "../../src/graph/operation-table.js";
import { layoutByName, type SupportedTypeName } from "../../src/quant/layout.js";
import type { Dice } from "../support/dice.js";
import { KV_OPTIONS } from "./cpu-program.js";

const NUMBERS = [
  -1,
  0,
  1,
  2,
  3,
  7,
  31,
  32,
  33,
  63,
  64,
  65,
  255,
  1023,
  65_535,
  2 ** 24,
  2 ** 31 - 1,
  2 ** 31,
  2 ** 32,
  2 ** 53,
  -(2 ** 31),
  0.5,
  Number.NaN,
  Number.POSITIVE_INFINITY,
];
const STRANGERS: readonly unknown[] = [
  undefined,
  null,
  "",
  "tokens",
  "scored",
  true,
  [],
  {},
  5n,
  new Uint8Array(3),
  () => 1,
];

/** The same data with one thing changed somewhere inside. */
export function mutated<Data>(data: Data, dice: Dice): Data {
  const copy = clone(data);
  const places: { readonly owner: Record<string, unknown>; readonly key: string }[] = [];
  collect(copy, places);
  const { owner, key } = dice.pick(places);
  owner[key] = otherValue(owner[key], dice);
  return copy as Data;
}

function otherValue(value: unknown, dice: Dice): unknown {
  if (dice.below(12) === 0) return dice.pick(STRANGERS);
  if (typeof value === "number")
    return dice.below(2) === 0 ? dice.pick(NUMBERS) : value + dice.pick([-2, -1, 1, 2, 16]);
  if (typeof value === "boolean") return !value;
  if (typeof value === "string")
    return dice.pick([
      "tokens",
      "outputs",
      "scored",
      ...Object.keys(OPERATIONS),
      "rope-store",
      "adjacent",
      "halves",
      "none",
      "silu",
      "gelu",
      "relu",
      "cyclic",
      "grouped",
      "hidden",
      "logits",
      "f32",
      "q8_0",
    ]);
  if (
    value instanceof Int32Array ||
    value instanceof Float32Array ||
    value instanceof Uint32Array ||
    value instanceof Float64Array
  ) {
    if (dice.below(3) === 0) return value.slice(0, dice.below(value.length + 1));
    if (dice.below(8) === 0) return new Uint8Array(value.buffer.slice(0));
    const changed = value.slice();
    changed[dice.below(changed.length)] = dice.pick(NUMBERS);
    return changed;
  }
  if (Array.isArray(value)) {
    if (dice.below(2) === 0) return value.slice(0, dice.below(value.length));
    return [...value, value[dice.below(value.length)]];
  }
  return dice.pick(STRANGERS);
}

function clone(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(clone);
  if (ArrayBuffer.isView(value)) return (value as Int32Array).slice();
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, clone(inner)]));
}

function collect(value: unknown, places: { readonly owner: Record<string, unknown>; readonly key: string }[]): void {
  if (typeof value !== "object" || value === null || ArrayBuffer.isView(value)) return;
  for (const [key, inner] of Object.entries(value)) {
    places.push({ owner: value as Record<string, unknown>, key });
    collect(inner, places);
  }
}

/** Room for every weight as the spec measures it, filled with small numbers. */
export function weightLocations(addon: NativeAddon, spec: NativeProgramSpec): NativeWeightLocation[] {
  return spec.weights.map(({ type, width, rows }) => {
    const layout = ["F32", "F16", "Q4_0", "Q8_0", "IQ4_NL"]
      .map((name) => layoutByName(name as SupportedTypeName))
      .find(({ id }) => id === type);
    const sizeBytes =
      layout === undefined
        ? 64
        : Math.min(1 << 20, Math.max(1, Math.ceil((width * rows) / layout.blockElements) * layout.blockBytes)) || 64;
    const region = addon.allocateRegion(sizeBytes);
    new Uint8Array(region.buffer ?? new ArrayBuffer(0)).fill(0x11);
    return { region, byteOffset: 0, sizeBytes };
  });
}

export interface Attempt {
  readonly spec: NativeProgramSpec;
  readonly steps: readonly NativeStepInput[];
  readonly kvOptions?: NativeKvOptions;
  /** Blocks that are copied while the first step runs. */
  readonly copies?: Int32Array;
  /** What is bound in place of the right locations. */
  readonly spoil?: (locations: readonly NativeWeightLocation[]) => readonly NativeWeightLocation[];
}

/** Compiles, binds and runs; returns the code of what was refused, or "ran". Throws on anything that is not a refusal. */
export async function attempt(
  addon: NativeAddon,
  { spec, steps, kvOptions = KV_OPTIONS, copies, spoil = (locations) => locations }: Attempt,
): Promise<string> {
  const made: { dispose(): void }[] = [];
  const keep = <Made extends { dispose(): void }>(one: Made): Made => (made.push(one), one);
  try {
    const program = keep(addon.compile(spec));
    const locations = weightLocations(addon, spec);
    for (const { region } of locations) keep(region);
    const cache = keep(addon.createKvCache(kvOptions));
    program.bind(spoil(locations));
    for (const step of steps) {
      const { result } = program.run(step, cache);
      try {
        if (copies !== undefined) cache.copyBlocks(copies, 0);
      } finally {
        await result;
      }
    }
    return "ran";
  } catch (error) {
    if (isNativeError(error)) return error.code;
    throw error;
  } finally {
    for (const one of made) one.dispose();
  }
}

/** One location changed: its numbers, its region for another or a stranger, or a region that was disposed. */
export function spoiltLocations(
  locations: readonly NativeWeightLocation[],
  dice: Dice,
): readonly NativeWeightLocation[] {
  const index = dice.below(locations.length);
  const { region, byteOffset, sizeBytes } = locations[index];
  const spoilt = dice.pick<() => unknown>([
    () => ({ region, byteOffset: otherValue(byteOffset, dice), sizeBytes }),
    () => ({ region, byteOffset, sizeBytes: otherValue(sizeBytes, dice) }),
    () => ({ region: dice.pick(locations).region, byteOffset: dice.below(64), sizeBytes }),
    () => ({ region: dice.pick(STRANGERS), byteOffset, sizeBytes }),
    () => (region.dispose(), { region, byteOffset, sizeBytes }),
    () => dice.pick(STRANGERS),
  ]);
  const result = locations.with(index, spoilt() as NativeWeightLocation);
  return dice.below(8) === 0 ? result.slice(0, dice.below(result.length)) : result;
}
