// Offsets of the members of a kernel's argument, read from the struct in its source: pointers and the few number types
// that kernels may take, each at its natural alignment. And the writer that fills such a struct in place.

import { gpuError } from "../drivers/shared/gpu-error.js";
import type { ArgumentBlock } from "../drivers/shared/driver.js";

/** A pointer is any `… *`; the others are type names. */
type FieldKind = "pointer" | "int" | "float" | "u32" | "u64";

interface ArgumentField {
  readonly name: string;
  readonly kind: FieldKind;
  readonly offset: number;
}

/** Members of a kernel's argument struct with their offsets. */
export interface ArgumentLayout {
  /** The struct's name. */
  readonly name: string;
  readonly fields: readonly ArgumentField[];
  readonly sizeBytes: number;
}

const SIZES: Readonly<Record<FieldKind, number>> = { pointer: 8, int: 4, float: 4, u32: 4, u64: 8 };
const STRUCT = /\bstruct\s+(\w*Arguments)\s*\{([^}]*)\}\s*;/g;
const MEMBER =
  /^(?:(?<pointer>[\w\s]+?)\s*\*\s*(?:const\s+)?(?:__restrict__\s+)?|(?<number>int|float|u32|u64)\s+)(?<name>\w+)$/;

/** Finds every `struct …Arguments` in a source without comments. */
export function parseArgumentLayouts(file: string, text: string): ReadonlyMap<string, ArgumentLayout> {
  const layouts = new Map<string, ArgumentLayout>();
  for (const [, name, body] of text.matchAll(STRUCT)) layouts.set(name, parseLayout(file, name, body));
  return layouts;
}

function parseLayout(file: string, name: string, body: string): ArgumentLayout {
  const fields: ArgumentField[] = [];
  let end = 0;
  let alignment = 1;
  for (const member of body.split(";")) {
    const declaration = member.replace(/\s+/g, " ").trim();
    if (declaration === "") continue;
    const parts = MEMBER.exec(declaration)?.groups;
    if (parts === undefined) throw wrongStruct(file, name, `has a member that the host cannot fill: ${declaration}`);
    const kind = parts["pointer"] === undefined ? (parts["number"] as FieldKind) : "pointer";
    const size = SIZES[kind];
    const offset = roundUp(end, size);
    fields.push({ name: parts["name"], kind, offset });
    end = offset + size;
    alignment = Math.max(alignment, size);
  }
  if (fields.length === 0) throw wrongStruct(file, name, "has no members");
  const names = new Set(fields.map((field) => field.name));
  if (names.size !== fields.length) throw wrongStruct(file, name, "has two members with the same name");
  return { name, fields, sizeBytes: roundUp(end, alignment) };
}

function roundUp(value: number, multiple: number): number {
  return Math.ceil(value / multiple) * multiple;
}

function wrongStruct(file: string, name: string, what: string): Error {
  return gpuError({
    kind: "kernel load",
    place: "kernels",
    what: `${file}: struct ${name} ${what}`,
    details: { file, struct: name },
  });
}

/** Numbers for `int`, `float` and `u32`; whole numbers of either type for `u64` and pointers. */
export type ArgumentValue = number | bigint;

/** Writes one member. */
type FieldSetter = (value: ArgumentValue) => void;

/** One kernel argument in memory, written by the names of its struct's members. */
export class KernelArguments {
  readonly block: ArgumentBlock;
  readonly #layout: ArgumentLayout;
  readonly #fields: ReadonlyMap<string, ArgumentField>;

  constructor(block: ArgumentBlock, layout: ArgumentLayout) {
    this.block = block;
    this.#layout = layout;
    this.#fields = new Map(layout.fields.map((field) => [field.name, field]));
    if (block.view.byteLength < layout.sizeBytes) {
      throw new TypeError(`${layout.name} takes ${layout.sizeBytes} bytes and the block has ${block.view.byteLength}`);
    }
  }

  /** Writes all members; a missing or unknown one is a programming error, found when the program is built. */
  set(values: Readonly<Record<string, ArgumentValue>>): this {
    const missing = this.#layout.fields.filter(({ name }) => values[name] === undefined).map(({ name }) => name);
    if (missing.length > 0) throw new TypeError(`${this.#layout.name}: no value for ${missing.join(", ")}`);
    for (const [name, value] of Object.entries(values)) write(this.block.view, this.#field(name), value);
    return this;
  }

  /** Writes some members; the others keep their values. */
  update(values: Readonly<Record<string, ArgumentValue>>): this {
    for (const [name, value] of Object.entries(values)) write(this.block.view, this.#field(name), value);
    return this;
  }

  /** Returns a setter for a member that changes often, which saves the lookup. */
  setter(name: string): FieldSetter {
    const field = this.#field(name);
    const { view } = this.block;
    return (value) => write(view, field, value);
  }

  #field(name: string): ArgumentField {
    const field = this.#fields.get(name);
    if (field !== undefined) return field;
    throw new TypeError(`${this.#layout.name} has no member ${name}; it has ${[...this.#fields.keys()].join(", ")}`);
  }
}

function write(view: DataView, { name, kind, offset }: ArgumentField, value: ArgumentValue): void {
  switch (kind) {
    case "pointer":
    case "u64":
      view.setBigUint64(offset, BigInt(value), true);
      return;
    case "int":
      view.setInt32(offset, wholeNumber(name, value, -(2 ** 31), 2 ** 31 - 1), true);
      return;
    case "u32":
      view.setUint32(offset, wholeNumber(name, value, 0, 2 ** 32 - 1), true);
      return;
    case "float":
      view.setFloat32(offset, Number(value), true);
      return;
    default:
      kind satisfies never;
  }
}

/** A number that does not fit would be truncated silently, and the kernel would read out of bounds. */
function wholeNumber(name: string, value: ArgumentValue, min: number, max: number): number {
  const number = Number(value);
  if (Number.isInteger(number) && number >= min && number <= max) return number;
  throw new RangeError(`${name}: expected a whole number from ${min} to ${max}, found ${String(value)}`);
}
