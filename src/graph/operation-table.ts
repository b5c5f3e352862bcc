// What each operation reads, writes and is told, as data, and the rule for its shapes. Inputs, weights, the memory plan,
// checks and dumps (`rocmforge plan`) follow from it, so that a new operation needs one entry here and no other code.

import type { Shape } from "../tensor/descriptor.js";
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
    fields: { table: "weight", scale: "attribute", onHost: "attribute", out: "output" },
    result: ({ table }, { weight }) => ({ rows: "tokens", width: weight(table)[0] }),
  },
  "rms-norm": {
    fields: {
      input: "input",
      weight: "weight",
      groupWidth: "attribute",
      rowWeights: "attribute",
      epsilon: "attribute",
      out: "output",
    },
    result: ({ input, weight, groupWidth, rowWeights = false }, shapes) => {
      const { width } = shapes.value(input);
      demand(width % groupWidth === 0, "rms-norm: the groups do not divide a row");
      demand(
        weight === undefined || elements(shapes.weight(weight)) === (rowWeights ? width : groupWidth),
        `rms-norm: the weight is not as wide as a ${rowWeights ? "row" : "group"}`,
      );
      return shapes.value(input);
    },
  },
  "layer-norm": {
    fields: { input: "input", weight: "weight", bias: "weight", epsilon: "attribute", out: "output" },
    result: ({ input, weight }, shapes) => {
      demand(shapes.weight(weight)[0] === shapes.value(input).width, "layer-norm: the weight is not as wide as a row");
      return shapes.value(input);
    },
  },
  scale: {
    fields: { input: "input", factor: "attribute", weight: "weight", out: "output" },
    result: ({ input }, { value }) => value(input),
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
      const [inputs, outputs = 1] = shapes.weight(weight);
      demand(width === inputs, `matmul: rows of ${width} meet a weight for ${inputs}`);
      demand(bias === undefined || shapes.weight(bias)[0] === outputs, "matmul: the bias is not as wide as the result");
      return { rows, width: outputs };
    },
  },
  "route-experts": {
    fields: {
      input: "input",
      bias: "weight",
      used: "attribute",
      gating: "attribute",
      groups: "attribute",
      groupsUsed: "attribute",
      renormalize: "attribute",
      scale: "attribute",
      out: "output",
    },
    result: ({ input, used, groups = 1, groupsUsed = groups }, { value }) => {
      const { rows, width: experts } = value(input);
      demand(used >= 1 && used <= experts, `route-experts: ${used} of ${experts} experts`);
      demand(experts % groups === 0, `route-experts: ${groups} groups of ${experts} experts`);
      demand(
        groupsUsed >= 1 && groupsUsed <= groups && used <= groupsUsed * (experts / groups),
        `route-experts: ${used} experts of ${groupsUsed} groups`,
      );
      return { rows, width: 2 * used };
    },
  },
  "grouped-matmul": {
    fields: {
      input: "input",
      routing: "input",
      weight: "weight",
      scale: "weight",
      bias: "weight",
      slots: "attribute",
      matrixRows: "attribute",
      inputStride: "attribute",
      firstOutput: "attribute",
      outputs: "attribute",
      weighted: "attribute",
      out: "output",
    },
    result: ({ input, routing, weight, slots, matrixRows, inputStride, firstOutput, outputs }, shapes) => {
      const { rows, width } = shapes.value(input);
      const [inputs, ...counts] = shapes.weight(weight);
      const matrices = counts.reduce((total, count) => total * count, 1) / matrixRows;
      const wanted = inputStride === 0 ? inputs : slots * inputStride;
      demand(
        width === wanted && (inputStride === 0 || inputs <= inputStride),
        "grouped-matmul: the slots do not fill a row",
      );
      demand(firstOutput + outputs <= matrixRows, "grouped-matmul: outputs beyond a matrix");
      if (routing === undefined) demand(slots === matrices, `grouped-matmul: ${slots} slots, ${matrices} matrices`);
      else demand(shapes.value(routing).width === 2 * slots, "grouped-matmul: the routing has other slots");
      return { rows, width: slots * outputs };
    },
  },
  "sum-slots": {
    fields: { input: "input", slots: "attribute", out: "output" },
    result: ({ input, slots }, { value }) => {
      const { rows, width } = value(input);
      demand(width % slots === 0, "sum-slots: the slots do not divide a row");
      return { rows, width: width / slots };
    },
  },
  rope: {
    fields: {
      input: "input",
      heads: "attribute",
      headWidth: "attribute",
      rotaryWidth: "attribute",
      firstColumn: "attribute",
      style: "attribute",
      rope: "rope",
      factors: "weight",
      out: "output",
    },
    result: ({ input, heads, headWidth, rotaryWidth, firstColumn = 0 }, { value }) => {
      demand(value(input).width === heads * headWidth, "rope: the heads do not fill a row");
      demand(
        firstColumn + rotaryWidth <= headWidth && rotaryWidth % 2 === 0,
        "rope: pairs of columns reach beyond a head",
      );
      return value(input);
    },
  },
  "concat-heads": {
    fields: {
      left: "input",
      right: "input",
      heads: "attribute",
      leftWidth: "attribute",
      rightWidth: "attribute",
      rightStride: "attribute",
      rightOffset: "attribute",
      out: "output",
    },
    result: ({ left, right, heads, leftWidth, rightWidth, rightStride, rightOffset }, { value }) => {
      const [{ rows, width }, other] = [value(left), value(right)];
      const rightColumns = rightStride === 0 ? rightOffset + rightWidth : heads * rightStride;
      demand(rows === other.rows && width === heads * leftWidth, "concat-heads: the heads do not fill the left rows");
      demand(
        other.width === rightColumns && (rightStride === 0 || rightOffset + rightWidth <= rightStride),
        "concat-heads: the heads do not fill the right rows",
      );
      return { rows, width: heads * (leftWidth + rightWidth) };
    },
  },
  "head-columns": {
    fields: { input: "input", heads: "attribute", offset: "attribute", width: "attribute", out: "output" },
    result: ({ input, heads, offset, width }, { value }) => {
      const { rows, width: columns } = value(input);
      demand(columns % heads === 0, "head-columns: the heads do not divide a row");
      demand(offset >= 0 && width >= 1 && offset + width <= columns / heads, "head-columns: columns beyond a head");
      return { rows, width: heads * width };
    },
  },
  "causal-conv": {
    fields: {
      state: "state",
      input: "input",
      weight: "weight",
      bias: "weight",
      activation: "attribute",
      out: "output",
    },
    result: ({ input, weight, bias }, shapes) => {
      const { rows, width } = shapes.value(input);
      demand(rows === "tokens", "causal-conv: it reads all tokens");
      demand(shapes.weight(weight)[1] === width, "causal-conv: the weight is not as wide as a row");
      demand(bias === undefined || shapes.weight(bias)[0] === width, "causal-conv: the bias is not as wide as a row");
      return { rows, width };
    },
  },
  "delta-net": {
    fields: {
      state: "state",
      input: "input",
      alpha: "input",
      beta: "input",
      decay: "weight",
      bias: "weight",
      keyHeads: "attribute",
      valueHeads: "attribute",
      headWidth: "attribute",
      keyHeadOrder: "attribute",
      epsilon: "attribute",
      out: "output",
    },
    result: ({ input, alpha, beta, decay, bias, keyHeads, valueHeads, headWidth }, shapes) => {
      const { rows, width } = shapes.value(input);
      demand(rows === "tokens", "delta-net: it reads all tokens");
      demand(valueHeads % keyHeads === 0, `delta-net: ${valueHeads} value heads cannot share ${keyHeads} key heads`);
      demand(width === (2 * keyHeads + valueHeads) * headWidth, "delta-net: the heads do not fill a row");
      for (const each of [alpha, beta])
        demand(shapes.value(each).width === valueHeads, "delta-net: alpha and beta have a column for each value head");
      for (const each of [decay, bias])
        demand(elements(shapes.weight(each)) === valueHeads, "delta-net: decay and bias are those of the value heads");
      return { rows, width: valueHeads * headWidth };
    },
  },
  "ssm-scan": {
    fields: {
      state: "state",
      input: "input",
      step: "input",
      decay: "weight",
      bias: "weight",
      skip: "weight",
      heads: "attribute",
      headWidth: "attribute",
      groups: "attribute",
      stateWidth: "attribute",
      out: "output",
    },
    result: ({ input, step, decay, bias, skip, heads, headWidth, groups, stateWidth }, shapes) => {
      const { rows, width } = shapes.value(input);
      demand(rows === "tokens", "ssm-scan: it reads all tokens");
      demand(heads % groups === 0, `ssm-scan: ${heads} heads cannot share ${groups} groups`);
      demand(width === heads * headWidth + 2 * groups * stateWidth, "ssm-scan: heads and groups do not fill a row");
      demand(shapes.value(step).width === heads, "ssm-scan: the step has a column for each head");
      for (const each of [decay, bias, skip])
        demand(elements(shapes.weight(each)) === heads, "ssm-scan: decay, bias and skip are those of the heads");
      return { rows, width: heads * headWidth };
    },
  },
  "previous-row": {
    fields: { state: "state", input: "input", width: "attribute", out: "output" },
    result: ({ input, width }, { value }) => {
      demand(
        input === undefined || (value(input).rows === "tokens" && value(input).width === width),
        "previous-row: it reads whole rows of all tokens",
      );
      return { rows: "tokens", width };
    },
  },
  "state-write": {
    fields: { state: "state", input: "input" },
    result: ({ input }, { value }) => {
      demand(value(input).rows === "tokens", "state-write: it reads all tokens");
      return undefined;
    },
  },
  "kv-write": {
    fields: { layer: "kv-layer", key: "input", value: "input" },
    result: ({ key, value }, shapes) => {
      const stored = [key, ...(value === undefined ? [] : [value])].map((id) => shapes.value(id));
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
      chunk: "attribute",
      first: "attribute",
      temperature: "attribute",
      temperatureLength: "attribute",
      temperatureOffset: "attribute",
      valuesInKeys: "attribute",
      softCap: "attribute",
      sinks: "weight",
      out: "output",
    },
    result: ({ query, heads, kvHeads, keyWidth, valueWidth, window = 1, chunk = 1 }, { value }) => {
      demand(value(query).width === heads * keyWidth, "attention: the query heads do not fill a row");
      demand(heads % kvHeads === 0, `attention: ${heads} query heads cannot share ${kvHeads} KV heads evenly`);
      demand(Number.isInteger(window) && window >= 1, `attention: a window of ${window} positions`);
      demand(Number.isInteger(chunk) && chunk >= 1, `attention: chunks of ${chunk} positions`);
      return { rows: value(query).rows, width: heads * valueWidth };
    },
  },
  glu: {
    fields: { activation: "attribute", gate: "input", up: "input", out: "output" },
    result: ({ gate, up }, { value }) => {
      const { rows, width } = value(gate);
      return width === 1 && rows === value(up).rows ? value(up) : alike("glu", value(gate), value(up));
    },
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

function elements(shape: Shape): number {
  return shape.reduce((total, size) => total * size, 1);
}

function alike(kind: OperationKind, left: ValueShape, right: ValueShape): ValueShape {
  demand(left.width === right.width && left.rows === right.rows, `${kind}: the operands differ in shape`);
  return left;
}

/** A family that writes an impossible graph is a mistake of the program, not of a file. */
function demand(condition: boolean, problem: string): void {
  if (!condition) throw new TypeError(problem);
}
