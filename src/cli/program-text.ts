// A whole Program as text, for `plan --dump`: every weight, value, slot, rope table and operation with its id.

import { inputsOf, outputOf, weightsOf } from "../graph/operation.js";
import type { Program } from "../graph/program.js";
import { formatShape } from "../tensor/descriptor.js";
import { formatTable, printable } from "./format.js";
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
    `KV cache: ${kv.layers} layers, ${kv.kvHeads} heads, keys of ${kv.keyWidth}, values of ${kv.valueWidth}`,
    `results: hidden v${program.hidden}, logits ${program.logits === undefined ? "none" : `v${program.logits}`}, vocabulary ${program.vocabularySize}`,
    "",
    `operations (${program.operations.length})`,
    formatTable(operationRows(program)),
  ].join("\n");
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
