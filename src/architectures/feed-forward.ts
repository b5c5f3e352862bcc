// The graphs of feed-forward networks: dense ones, and mixtures of experts with and without a shared expert.

import type { Activation, ValueId } from "../graph/operation.js";
import type { DecoderContext } from "./decoder-context.js";
import type { DenseSpec, ExpertsSpec, FeedForwardSpec, NoSpec, SharedExpertSpec } from "./layer.js";

/** Names of the matrices of a gated network. */
interface GatedNames {
  readonly gate: string;
  readonly up: string;
  readonly down: string;
}

/** The feed-forward network of a layer. */
export function writeFeedForward(
  context: DecoderContext,
  spec: Exclude<FeedForwardSpec, NoSpec>,
  block: string,
  input: ValueId,
): ValueId {
  return spec.kind === "dense"
    ? writeDense(context, spec, block, input)
    : writeExperts(context, spec, block, input, writeRouterLogits(context, spec, block, input));
}

/** A dense network. */
export function writeDense(
  context: DecoderContext,
  { width, activation, gateAndUp }: DenseSpec,
  block: string,
  input: ValueId,
): ValueId {
  const { graph } = context;
  if (gateAndUp === "separate") {
    const names = { gate: `${block}.ffn_gate`, up: `${block}.ffn_up`, down: `${block}.ffn_down` };
    return writeGated(context, names, width, activation, input);
  }
  const inputs = context.parameters.embeddingWidth;
  if (gateAndUp === "same") {
    const names = { up: `${block}.ffn_up`, down: `${block}.ffn_down` };
    return writeUngated(context, names, width, activation, input);
  }
  const both = graph.matmul(input, `${block}.ffn_up`, { inputs, outputs: 2 * width });
  const [gate, up] = [graph.columns(both, "gate", 0, width), graph.columns(both, "up", width, width)];
  return graph.matmul(graph.glu(gate, up, activation), `${block}.ffn_down`, { inputs: width, outputs: inputs });
}

function writeGated(
  { graph, parameters }: DecoderContext,
  names: GatedNames,
  width: number,
  activation: Activation,
  input: ValueId,
): ValueId {
  const inputs = parameters.embeddingWidth;
  const gate = graph.matmul(input, names.gate, { inputs, outputs: width });
  const up = graph.matmul(input, names.up, { inputs, outputs: width });
  return graph.matmul(graph.glu(gate, up, activation), names.down, { inputs: width, outputs: inputs });
}

/** A network whose gate is the result of up, too. */
function writeUngated(
  { graph, parameters }: DecoderContext,
  names: Omit<GatedNames, "gate">,
  width: number,
  activation: Activation,
  input: ValueId,
): ValueId {
  const inputs = parameters.embeddingWidth;
  const up = graph.matmul(input, names.up, { inputs, outputs: width });
  return graph.matmul(graph.glu(up, up, activation), names.down, { inputs: width, outputs: inputs });
}

/** The router's logits. */
export function writeRouterLogits(
  { graph, parameters }: DecoderContext,
  { count }: ExpertsSpec,
  block: string,
  input: ValueId,
): ValueId {
  return graph.matmul(input, `${block}.ffn_gate_inp`, {
    inputs: parameters.embeddingWidth,
    outputs: count,
    ignoresScale: true,
  });
}

/** The experts that the router's logits choose, and the shared expert. */
export function writeExperts(
  context: DecoderContext,
  spec: ExpertsSpec,
  block: string,
  input: ValueId,
  logits: ValueId,
): ValueId {
  const { graph } = context;
  const { embeddingWidth } = context.parameters;
  const { latentWidth } = spec;
  const routing = route(context, spec, block, logits);
  const read =
    latentWidth === undefined
      ? input
      : graph.matmul(input, `${block}.ffn_latent_down`, { inputs: embeddingWidth, outputs: latentWidth });
  const chosen = writeChosen(context, spec, block, read, routing);
  const sum =
    latentWidth === undefined
      ? chosen
      : graph.matmul(chosen, `${block}.ffn_latent_up`, { inputs: latentWidth, outputs: embeddingWidth });
  return spec.shared === undefined ? sum : graph.add(sum, sharedExpert(context, spec, spec.shared, block, input));
}

/** The weighted sum of the chosen experts. */
function writeChosen(
  context: DecoderContext,
  spec: ExpertsSpec,
  block: string,
  input: ValueId,
  routing: ValueId,
): ValueId {
  const { graph } = context;
  const { count: matrices, used: slots, width, activation, weighsInput, ungated = false } = spec;
  const inputs = graph.width(input);
  const chosen = { matrices, slots, routing } as const;
  const fused = `${block}.ffn_gate_up_exps`;
  const isFused = graph.hasTensor(`${fused}.weight`);
  const half = (name: string, firstOutput: number): ValueId =>
    isFused
      ? graph.groupedMatmul(input, fused, {
          ...chosen,
          inputs,
          rows: 2 * width,
          firstOutput,
          outputs: width,
          weighted: weighsInput,
        })
      : graph.groupedMatmul(input, `${block}.${name}`, { ...chosen, inputs, rows: width, weighted: weighsInput });
  // The experts are linear up to the activation: to weigh their input is to weigh these results, before biases.
  if (weighsInput)
    context.refuseTensor(
      [`${block}.ffn_gate_exps.bias`, `${block}.ffn_up_exps.bias`, `${fused}.bias`],
      "for experts whose weights scale their input",
    );
  // Gate first, as backends expect it.
  const gate = ungated ? undefined : half("ffn_gate_exps", 0);
  const up = half("ffn_up_exps", width);
  const down = graph.groupedMatmul(graph.glu(gate ?? up, up, activation), `${block}.ffn_down_exps`, {
    ...chosen,
    inputs: width,
    rows: inputs,
    inputStride: width,
    weighted: !weighsInput,
  });
  return graph.emit("experts", { kind: "sum-slots", input: down, slots });
}

function route(
  { graph }: DecoderContext,
  { count, used, gating, renormalize, weightScale, groups, groupsUsed }: ExpertsSpec,
  block: string,
  input: ValueId,
): ValueId {
  // Some converters leave the suffix out.
  const name = [`${block}.exp_probs_b.bias`, `${block}.exp_probs_b`].find((candidate) => graph.hasTensor(candidate));
  return graph.emit("routing", {
    kind: "route-experts",
    input,
    ...(name === undefined ? {} : { bias: graph.vector(name, count) }),
    used,
    gating,
    ...(groups === 1 ? {} : { groups, groupsUsed }),
    renormalize,
    ...(weightScale === 1 ? {} : { scale: weightScale }),
  });
}

function sharedExpert(
  context: DecoderContext,
  { activation, ungated = false }: ExpertsSpec,
  { width, gated }: SharedExpertSpec,
  block: string,
  input: ValueId,
): ValueId {
  const { graph, parameters } = context;
  const names = { gate: `${block}.ffn_gate_shexp`, up: `${block}.ffn_up_shexp`, down: `${block}.ffn_down_shexp` };
  const write = ungated ? writeUngated : writeGated;
  const result = write(context, names, width, activation, input);
  if (!gated) return result;
  const gate = graph.matmul(input, `${block}.ffn_gate_inp_shexp`, { inputs: parameters.embeddingWidth, outputs: 1 });
  return graph.glu(gate, result, "sigmoid");
}
