// A whole Program as text, for `plan --dump`: every weight, value, slot, rope table and operation with its id.

import { inputsOf, outputOf, weightsOf } from "../graph/operation.js";
import { kvGroups } from "../graph/cache-groups.js";
import type { KvLayerShape, KvReach, KvShape, Program } from "../graph/program.js";
import { formatShape } from "../tensor/descriptor.js";
import { countOf, formatTable, printable } from "./format.js";
import { describeAttributes } from "./operation-names.js";

/** A program as text. */
export function describeProgram(program: Program): string {
  const { weights, values, memory, ropes, kv } = program;
  return [
    `weights (${weights.length})`,
    formatTable(weights.map(({ name, shape, role }, id) => [`w${id}`, printable(name), formatShape(shape), role])),
    "",
    `values (${values.length})`,
    formatTable(
      values.map(({ id, name, rows, width, base, columnOffset }) => [
        `v${id}`,
        name,
        `${rows} × ${width}`,
        `slot ${memory.slotOf[id]}`,
        base === undefined ? "" : `columns of v${base} from ${columnOffset}`,
      ]),
    ),
    "",
    `scratch slots (${memory.slots.length})`,
    formatTable(memory.slots.map(({ rows, width }, id) => [`slot ${id}`, `${rows} × ${width}`])),
    "",
    `rope tables (${ropes.length})`,
    ...ropes.map(
      ({ magnitude, ratio, stretches }, id) =>
        `  rope ${id}: magnitude ${magnitude}, ratio ${ratio}, scales ${stretches.join(" ")}`,
    ),
    "",
    ...kvLines(kv),
    `results: hidden v${program.hidden}, logits ${program.logits === undefined ? "none" : `v${program.logits}`}, vocabulary ${program.vocabularySize}`,
    "",
    `operations (${program.operations.length})`,
    formatTable(operationRows(program)),
  ].join("\n");
}

/** How far back queries see, in words. */
export function reachText({ window, chunk }: KvReach): string {
  const limits = [
    ...(window === undefined ? [] : [`a window of ${countOf(window, "token")}`]),
    ...(chunk === undefined ? [] : [`chunks of ${countOf(chunk, "token")}`]),
  ];
  return limits.length === 0 ? "all tokens" : limits.join(" and ");
}

function kvLines(kv: KvShape): string[] {
  if (kv.groups === undefined) return shapeLines(kv);
  const groups = kvGroups(kv).map(
    ({ layers, ...reach }, group) => `  cache group ${group}: layers ${layers.join(", ")}: ${reachText(reach)}`,
  );
  return [...shapeLines(kv), ...groups];
}

function shapeLines({ layers, byLayer, ...shape }: KvShape): string[] {
  const shapeText = ({ kvHeads, keyWidth, valueWidth }: KvLayerShape): string =>
    `${kvHeads} heads, keys of ${keyWidth}, values of ${valueWidth}`;
  if (byLayer === undefined) return [`KV cache: ${layers} layers, ${shapeText(shape)}`];
  return [`KV cache: ${layers} layers`, ...byLayer.map((layer, index) => `  layer ${index}: ${shapeText(layer)}`)];
}

function operationRows({ operations, segments }: Program): string[][] {
  const starts = new Map(
    segments
      .filter(({ operationCount }) => operationCount > 0)
      .map(({ firstOperation, name }) => [firstOperation, name]),
  );
  return operations.map((operation, index) => {
    const out = outputOf(operation);
    return [
      String(index),
      starts.get(index) ?? "",
      operation.kind,
      [...inputsOf(operation).map((id) => `v${id}`), ...weightsOf(operation).map((id) => `w${id}`)].join(" "),
      out === undefined ? "" : `→ v${out}`,
      describeAttributes(operation),
    ];
  });
}
