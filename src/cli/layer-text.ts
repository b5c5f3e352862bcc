// A plan's layers as text. Equal layers are printed once: "layers 0-31"; layers that differ only in the block types of
// their weights count as equal, and each type is listed with the number of layers that use it.

import { inputsOf, outputOf, weightsOf } from "../graph/operation.js";
import type { Program } from "../graph/program.js";
import type { LayerPlan } from "../plan/layer-plan.js";
import { formatShape } from "../tensor/descriptor.js";
import { countOf, formatBytes, formatRanges, formatTable, printable } from "./format.js";
import { describeAttributes } from "./operation-names.js";

/** Replaces the layer's number in the names of a group of layers. */
const LAYER_MARK = "N";
const LAYER_PREFIX = /^.*\.N\./;
const LAYER_INPUT = "input";

interface LayerGroup {
  readonly rows: readonly (readonly string[])[];
  readonly layers: LayerPlan[];
}

/** The layers of a plan as text, equal ones once. */
export function describeLayers(program: Program, layers: readonly LayerPlan[]): string {
  const groups: LayerGroup[] = [];
  const known = new Map<string, LayerGroup>();
  for (const layer of layers) {
    const rows = operationRows(program, layer);
    // Only layers are grouped; other segments are always printed separately.
    const key = JSON.stringify(layer.layer === undefined ? [layer.name, rows] : rows);
    const group = known.get(key) ?? { rows, layers: [] };
    if (!known.has(key)) groups.push(group);
    known.set(key, group);
    group.layers.push(layer);
  }
  return groups.map(describeGroup).join("\n\n");
}

function describeGroup({ rows, layers }: LayerGroup): string {
  const [first] = layers;
  const sizeBytes = layers.reduce((total, { weights }) => total + weightBytes(weights), 0);
  const numbers = layers.flatMap(({ layer }) => layer ?? []);
  const name = numbers.length === 0 ? first.name : `layer${numbers.length === 1 ? "" : "s"} ${formatRanges(numbers)}`;
  const title = `${name}: ${countOf(first.operations.length, "operation")}${layers.length > 1 ? " each" : ""}, ${formatBytes(sizeBytes)} of weights`;
  const weights = first.weights.map(({ spec }, index) => [
    folded(spec.name, first.layer),
    formatShape(spec.shape),
    typesOf(layers.map((layer) => layer.weights[index].tensor?.descriptor.layout.name ?? "missing")),
  ]);
  return [
    title,
    formatTable(rows),
    ...(weights.length === 0 ? [] : ["  weights", formatTable(weights, ["left", "right", "left"], "    ")]),
  ].join("\n");
}

function operationRows(program: Program, { operations, layer }: LayerPlan): string[][] {
  const made = new Set(operations.map(outputOf));
  const valueName = (id: number): string => {
    const { name, base = id } = program.values[id];
    // Values from before a layer are the same to it, whichever layer they come from.
    return made.has(base) ? folded(name, layer).replace(LAYER_PREFIX, "") : LAYER_INPUT;
  };
  return operations.map((operation) => {
    const inputs = inputsOf(operation).map(valueName).join(", ");
    const out = outputOf(operation);
    const result =
      out === undefined
        ? "the KV cache"
        : `${valueName(out)} [${program.values[out].rows} × ${program.values[out].width}]`;
    const weights = weightsOf(operation).map((id) => folded(program.weights[id].name, layer));
    const notes = [...weights, describeAttributes(operation)].filter((note) => note !== "").join(", ");
    return [operation.kind, `${inputs === "" ? "tokens" : inputs} → ${result}`, notes];
  });
}

function folded(name: string, layer: number | undefined): string {
  return printable(layer === undefined ? name : name.replace(`.${layer}.`, `.${LAYER_MARK}.`));
}

/** "Q4_K", or "Q4_K in 5, Q6_K in 3" if layers differ. */
function typesOf(types: readonly string[]): string {
  const counts = new Map<string, number>();
  for (const type of types) counts.set(type, (counts.get(type) ?? 0) + 1);
  if (counts.size === 1) return types[0];
  return Array.from(counts, ([type, count]) => `${type} in ${count}`).join(", ");
}

function weightBytes(weights: LayerPlan["weights"]): number {
  return weights.reduce((total, { tensor }) => total + (tensor?.descriptor.sizeBytes ?? 0), 0);
}
