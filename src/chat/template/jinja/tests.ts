// Jinja's tests, which follow `is`.

import { Given } from "./arguments.js";
import { compared, contains, isEqual } from "./operators.js";
import { printed } from "./printing.js";
import { Text } from "./text.js";
import {
  Callable,
  Dict,
  Float,
  isNumeric,
  isSequence,
  numberOf,
  orElse,
  Undefined,
  type TemplateValue,
} from "./values.js";

type Test = (value: TemplateValue, given: Given) => boolean;

const other = (given: Given): TemplateValue => orElse(given.value(0), new Undefined());

const TESTS: ReadonlyMap<string, Test> = new Map<string, Test>([
  ["defined", (value) => !(value instanceof Undefined)],
  ["undefined", (value) => value instanceof Undefined],
  ["none", (value) => value === null],
  ["boolean", (value) => typeof value === "boolean"],
  ["true", (value) => value === true],
  ["false", (value) => value === false],
  ["string", (value) => value instanceof Text],
  ["number", (value) => isNumeric(value)],
  ["integer", (value) => typeof value === "number"],
  ["float", (value) => value instanceof Float],
  ["mapping", (value) => value instanceof Dict],
  ["sequence", hasItems],
  ["iterable", hasItems],
  ["callable", (value) => value instanceof Callable],
  ["lower", (value) => isCase(printed(value).value, (text) => text.toLowerCase())],
  ["upper", (value) => isCase(printed(value).value, (text) => text.toUpperCase())],
  ["odd", (value) => remainder(value, 2) === 1],
  ["even", (value) => remainder(value, 2) === 0],
  ["divisibleby", (value, given) => remainder(value, given.integer(0) ?? 0) === 0],
  ["in", (value, given) => contains(other(given), value)],
  ["sameas", (value, given) => value === other(given)],
  ...named(["eq", "equalto", "=="], (value, given) => isEqual(value, other(given))),
  ...named(["ne", "!="], (value, given) => !isEqual(value, other(given))),
  ...named(["lt", "lessthan", "<"], (value, given) => compared(value, other(given)) < 0),
  ...named(["gt", "greaterthan", ">"], (value, given) => compared(value, other(given)) > 0),
  ...named(["le", "<="], (value, given) => compared(value, other(given)) <= 0),
  ...named(["ge", ">="], (value, given) => compared(value, other(given)) >= 0),
]);

/** Tests that take an argument without brackets. */
export const TESTS_OF_TWO: ReadonlySet<string> = new Set([
  "divisibleby",
  "in",
  "sameas",
  "eq",
  "equalto",
  "ne",
  "lt",
  "lessthan",
  "gt",
  "greaterthan",
  "le",
  "ge",
]);

/** Evaluates `value is name(…)`; an unknown test throws the error message that Jinja has for it. */
export function isTrueOf(name: string, value: TemplateValue, given: Given): boolean {
  const test = TESTS.get(name);
  if (test === undefined) throw new Error(`No test named '${name}'`);
  return test(value, given);
}

/** Whether a value is iterable; undefined is, and is empty. */
function hasItems(value: TemplateValue): boolean {
  return isSequence(value) || value instanceof Text || value instanceof Dict || value instanceof Undefined;
}

function isCase(text: string, change: (text: string) => string): boolean {
  return text === change(text) && text.toLowerCase() !== text.toUpperCase();
}

function named(names: readonly string[], test: Test): [string, Test][] {
  return names.map((name) => [name, test]);
}

function remainder(value: TemplateValue, by: number): number {
  if (!isNumeric(value)) throw new Error("expected a number to divide");
  if (by === 0) throw new Error("division by zero");
  return Math.abs(numberOf(value) % by);
}
