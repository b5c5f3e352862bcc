// Operations with names in place of ids, for people and for `plan --json`. Values are written `name#id`, because two
// sums in one layer are both called "sum"; weights are the tensors' names in the file.

import type { Operation } from "../graph/operation.js";
import type { Program } from "../graph/program.js";

/** An operation with names in place of ids. */
export type NamedOperation = { readonly kind: Operation["kind"] } & Readonly<Record<string, string | number>>;

/** Replaces an operation's ids by names. */
export function nameOperation({ values, weights }: Program, operation: Operation): NamedOperation {
  const value = (id: number): string => `${values[id].name}#${id}`;
  const weight = (id: number): string => weights[id].name;
  const optional = (name: string, id: number | undefined): Record<string, string> =>
    id === undefined ? {} : { [name]: weight(id) };
  switch (operation.kind) {
    case "embed":
      return { ...operation, table: weight(operation.table), out: value(operation.out) };
    case "rms-norm":
      return {
        ...operation,
        input: value(operation.input),
        weight: weight(operation.weight),
        out: value(operation.out),
      };
    case "matmul": {
      const { kind, input, weight: matrix, scale, bias, out } = operation;
      return {
        kind,
        input: value(input),
        weight: weight(matrix),
        ...optional("scale", scale),
        ...optional("bias", bias),
        out: value(out),
      };
    }
    case "rope": {
      const { factors, ...rest } = operation;
      return { ...rest, input: value(operation.input), ...optional("factors", factors), out: value(operation.out) };
    }
    case "kv-write":
      return { ...operation, key: value(operation.key), value: value(operation.value) };
    case "attention":
      return { ...operation, query: value(operation.query), out: value(operation.out) };
    case "glu":
      return { ...operation, gate: value(operation.gate), up: value(operation.up), out: value(operation.out) };
    case "add":
      return { ...operation, left: value(operation.left), right: value(operation.right), out: value(operation.out) };
    case "quantize-activations":
    case "select-rows":
      return { ...operation, input: value(operation.input), out: value(operation.out) };
    default:
      return operation satisfies never;
  }
}

/** An operation's attributes, beyond its inputs and weights, in a few words. */
export function describeAttributes(operation: Operation): string {
  switch (operation.kind) {
    case "rms-norm":
      return `groups of ${operation.groupWidth}, epsilon ${Number(operation.epsilon.toPrecision(3))}`;
    case "rope":
      return `${operation.heads} heads of ${operation.headWidth}, ${operation.rotaryWidth} rotated as ${operation.style}`;
    case "attention":
      return `${operation.heads} heads of ${operation.keyWidth} over ${operation.kvHeads} key heads`;
    case "embed":
    case "matmul":
    case "kv-write":
    case "glu":
    case "add":
    case "quantize-activations":
    case "select-rows":
      return "";
    default:
      return operation satisfies never;
  }
}
