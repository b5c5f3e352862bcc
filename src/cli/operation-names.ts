// Operations with names in place of ids, for people and for `plan --json`. Values are written `name#id`, because two
// sums in one layer are both called "sum"; weights are the tensors' names in the file.

import { fieldsOf, type Operation, type OperationField } from "../graph/operation.js";
import type { Program } from "../graph/program.js";
import { wordsOf } from "./format.js";

/** An operation with names in place of ids. */
type NamedOperation = { readonly kind: Operation["kind"] } & Readonly<Record<string, string | number | boolean>>;

/** Replaces an operation's ids by names. */
export function nameOperation({ values, weights }: Program, operation: Operation): NamedOperation {
  const shown = ({ role, value }: OperationField): string | number | boolean => {
    if (typeof value !== "number") return value;
    if (role === "input" || role === "output") return `${values[value].name}#${value}`;
    return role === "weight" ? weights[value].name : value;
  };
  const fields = Object.fromEntries(fieldsOf(operation).map((field) => [field.name, shown(field)]));
  return { kind: operation.kind, ...fields };
}

const DESCRIBED_DIGITS = 3;

/** An operation's attributes and rope table in a few words; the layer of the cache is left out, so that layers fold. */
export function describeAttributes(operation: Operation): string {
  return fieldsOf(operation)
    .filter(({ role }) => role === "attribute" || role === "rope")
    .map(({ name, value }) => `${wordsOf(name)} ${typeof value === "number" ? shortNumber(value) : value}`)
    .join(", ");
}

function shortNumber(value: number): string {
  return String(Number.isInteger(value) ? value : Number(value.toPrecision(DESCRIBED_DIGITS)));
}
