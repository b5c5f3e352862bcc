// What each operation reads, writes and is told, as data, and the rule for its shapes. Inputs, weights, the memory plan,
// checks and dumps (`rocmforge plan`) follow from it, so that a new operation needs one entry here and no other code.

import type {
  FieldRole,
  OperandShapes,
  OperationKind,
  OperationOf,
  UnplacedOperation,
  ValueShape,
} from "./operation.js";

export interface OperationEntry<Kind extends OperationKind> {
  /** In order: inputs, weights and dumps follow it. */
  readonly fields: { readonly [Field in Exclude<keyof OperationOf<Kind>, "kind">]-?: FieldRole };
  /** The shape of the result, undefined if there is none; throws if the operands do not fit the operation. */
  readonly result: (operation: UnplacedOperation<Kind>, shapes: OperandShapes) => ValueShape | undefined;
}

/** One entry for each operation. */
export const OPERATIONS: { readonly [Kind in OperationKind]: OperationEntry<Kind> } = {
  embed: {
    fields: { table: "weight", scale: "attribute", out: "output" },
    result: ({ table }, { weight }) => ({ rows: "tokens", width: weight(table)[0] }),
  },
  "rms-norm": {
    fields: { input: "input", weight: "weight", groupWidth: "attribute", epsilon: "attribute", out: "output" },
    result: ({ input, weight, groupWidth }, shapes) => {
      demand(shapes.value(input).width % groupWidth === 0, "rms-norm: the groups do not divide a row");
      demand(shapes.weight(weight)[0] === groupWidth, "rms-norm: the weight is not as wide as a group");
      return shapes.value(input);
    },
  },
  "quantize-activations": {
    fields: { input: "input", out: "output" },
    result: ({ input }, { value }) => value(input),
  },
  matmul: {
    fields: {
      input: "input",
      weight: "weight",
      scale: "weight",
      bias: "weight",
      softCap: "attribute",
      out: "output",
    },
    result: ({ input, weight, bias }, shapes) => {
      const { rows, width } = shapes.value(input);
      const [inputs, outputs] = shapes.weight(weight);
      demand(width === inputs, `matmul: rows of ${width} meet a weight for ${inputs}`);
      demand(bias === undefined || shapes.weight(bias)[0] === outputs, "matmul: the bias is not as wide as the result");
      return { rows, width: outputs };
    },
  },
  rope: {
    fields: {
      input: "input",
      heads: "attribute",
      headWidth: "attribute",
      rotaryWidth: "attribute",
      style: "attribute",
      rope: "rope",
      factors: "weight",
      out: "output",
    },
    result: ({ input, heads, headWidth, rotaryWidth }, { value }) => {
      demand(value(input).width === heads * headWidth, "rope: the heads do not fill a row");
      demand(rotaryWidth <= headWidth && rotaryWidth % 2 === 0, "rope: pairs of columns reach beyond a head");
      return value(input);
    },
  },
  "kv-write": {
    fields: { layer: "kv-layer", key: "input", value: "input" },
    result: ({ key, value }, shapes) => {
      const stored = [shapes.value(key), shapes.value(value)];
      demand(
        stored.every(({ rows }) => rows === "tokens"),
        "kv-write: keys and values are of all tokens",
      );
      return undefined;
    },
  },
  attention: {
    fields: {
      layer: "kv-layer",
      query: "input",
      heads: "attribute",
      kvHeads: "attribute",
      keyWidth: "attribute",
      valueWidth: "attribute",
      scale: "attribute",
      window: "attribute",
      softCap: "attribute",
      sinks: "weight",
      out: "output",
    },
    result: ({ query, heads, kvHeads, keyWidth, valueWidth, window = 1 }, { value }) => {
      demand(value(query).width === heads * keyWidth, "attention: the query heads do not fill a row");
      demand(heads % kvHeads === 0, `attention: ${heads} query heads cannot share ${kvHeads} KV heads evenly`);
      demand(Number.isInteger(window) && window >= 1, `attention: a window of ${window} positions`);
      return { rows: value(query).rows, width: heads * valueWidth };
    },
  },
  glu: {
    fields: { activation: "attribute", gate: "input", up: "input", out: "output" },
    result: ({ gate, up }, { value }) => alike("glu", value(gate), value(up)),
  },
  add: {
    fields: { left: "input", right: "input", out: "output" },
    result: ({ left, right }, { value }) => alike("add", value(left), value(right)),
  },
  "select-rows": {
    fields: { rows: "attribute", input: "input", out: "output" },
    result: ({ input, rows }, { value }) => ({ rows, width: value(input).width }),
  },
};

function alike(kind: OperationKind, left: ValueShape, right: ValueShape): ValueShape {
  demand(left.width === right.width && left.rows === right.rows, `${kind}: the operands differ in shape`);
  return left;
}

/** A family that writes an impossible graph is a mistake of the program, not of a file. */
function demand(condition: boolean, problem: string): void {
  if (!condition) throw new TypeError(problem);
}
