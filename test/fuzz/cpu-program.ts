// A valid program for the native bindings, with every kind of instruction, and a step of it: what is mutated.

import type { NativeKvOptions, NativeProgramSpec, NativeStepInput } from "../../src/backends/cpu/native-bindings.js";
import { lower } from "../../src/backends/cpu/lowering.js";
import { GraphBuilder } from "../../src/graph/builder.js";
import { fuseExperts } from "../../src/graph/fusion.js";
import type { ValueId } from "../../src/graph/operation.js";
import { kvShapeOf, type Program } from "../../src/graph/program.js";
import { layoutByName, type SupportedTypeName } from "../../src/quant/layout.js";
import type { TensorDescriptor } from "../../src/tensor/descriptor.js";

const WIDTH = 64;
const HEADS = 4;
const KV_HEADS = 2;
const HEAD_WIDTH = 16;
const INNER = 96;
const EXPERTS = 6;
const USED = 2;
const LATENT = 32;
const LATENT_VALUES = 16;
const VOCABULARY = 40;
const BLOCK_TOKENS = 4;
const BLOCKS = 6;
const TAPS = 3;
const STATE_WIDTH = 8;
const STATE_SLOTS = 4;
/** Of the convolution, the delta net, the scan and a row. */
const STATES = [(TAPS - 1) * WIDTH, HEADS * 8 * 8, HEADS * STATE_WIDTH * 8, HEADS * 8];

/** A layer with keys and values, and one whose values are in its keys. */
const KV_SHAPE = kvShapeOf(
  [
    { kvHeads: KV_HEADS, keyWidth: HEAD_WIDTH, valueWidth: HEAD_WIDTH },
    { kvHeads: 1, keyWidth: LATENT, valueWidth: 0 },
  ],
  STATES,
);

/** How far back queries see each of the layers. */
const GROUPS = [
  { layers: [0], window: 5 },
  { layers: [1], chunk: 3 },
];

export const KV_OPTIONS: NativeKvOptions = {
  ...KV_SHAPE,
  groups: GROUPS,
  blocksByGroup: [BLOCKS, BLOCKS - 2],
  blocks: BLOCKS,
  blockTokens: BLOCK_TOKENS,
  type: "f16",
  stateSlots: STATE_SLOTS,
};

/** A network of experts with everything that one may have, and latent attention after it. */
function expertsAndLatent(graph: GraphBuilder, input: ValueId): ValueId {
  const normed = graph.layerNorm(input, "layer", 1e-5);
  const logits = graph.matmul(normed, "router", { inputs: WIDTH, outputs: EXPERTS });
  const routing = graph.emit("routing", {
    kind: "route-experts",
    input: logits,
    bias: graph.vector("router.choice", EXPERTS),
    used: USED,
    gating: "sigmoid",
    groups: 3,
    groupsUsed: 2,
    renormalize: true,
    scale: 2,
  });
  const chosen = { matrices: EXPERTS, slots: USED, routing } as const;
  const half = (firstOutput: number): ValueId =>
    graph.groupedMatmul(normed, "both", { ...chosen, inputs: WIDTH, rows: 2 * INNER, firstOutput, outputs: INNER });
  const gated = graph.glu(half(0), half(INNER), "swiglu-oai");
  const down = { ...chosen, inputs: INNER, rows: WIDTH, inputStride: INNER, weighted: true };
  const sum = graph.emit("experts", {
    kind: "sum-slots",
    input: graph.groupedMatmul(gated, "experts", down),
    slots: USED,
  });
  const fed = graph.add(sum, input);
  // The slots of a second mixture, which is not joined: its results are read twice.
  const apart = graph.groupedMatmul(graph.scale(fed, 0.5), "apart", { ...chosen, inputs: WIDTH, rows: WIDTH });
  const both = graph.add(
    graph.emit("apart", { kind: "sum-slots", input: apart, slots: USED }),
    graph.columns(apart, "first", 0, WIDTH),
  );
  const heads = graph.groupedMatmul(both, "absorbed", {
    inputs: HEAD_WIDTH,
    rows: LATENT_VALUES,
    matrices: HEADS,
    slots: HEADS,
    inputStride: HEAD_WIDTH,
  });
  const query = graph.emit("query", {
    kind: "concat-heads",
    left: heads,
    right: both,
    heads: HEADS,
    leftWidth: LATENT_VALUES,
    rightWidth: LATENT - LATENT_VALUES,
    rightStride: HEAD_WIDTH,
    rightOffset: 0,
  });
  const attended = graph.attention(query, graph.columns(both, "key", 0, LATENT), undefined, {
    layer: 1,
    heads: HEADS,
    kvHeads: 1,
    keyWidth: LATENT,
    valueWidth: LATENT_VALUES,
    scale: 0.2,
    chunk: 3,
    temperature: 0.1,
    temperatureLength: 4,
    temperatureOffset: 1,
    valuesInKeys: true,
  });
  return graph.glu(graph.columns(fed, "gate", 0, 1), graph.unweightedRmsNorm(attended, 1e-5, HEAD_WIDTH), "sigmoid");
}

/** Every operation with a recurrent state, one after the other. */
function recurrentLayers(graph: GraphBuilder, input: ValueId): ValueId {
  const convolved = graph.emit("convolved", {
    kind: "causal-conv",
    state: 0,
    input,
    weight: graph.table("conv.weight", [TAPS, WIDTH]),
    bias: graph.vector("conv.bias", WIDTH),
    activation: "silu",
  });
  const gates = graph.columns(convolved, "gates", 0, HEADS);
  const remembered = graph.emit("delta net", {
    kind: "delta-net",
    state: 1,
    input: convolved,
    alpha: gates,
    beta: graph.columns(convolved, "beta", HEADS, HEADS),
    decay: graph.vector("delta.decay", HEADS),
    bias: graph.vector("delta.bias", HEADS),
    keyHeads: 2,
    valueHeads: HEADS,
    headWidth: 8,
    keyHeadOrder: "grouped",
    epsilon: 1e-6,
  });
  const scanned = graph.emit("scan", {
    kind: "ssm-scan",
    state: 2,
    input: graph.columns(convolved, "scanned", 0, HEADS * 8 + 2 * 2 * STATE_WIDTH),
    step: gates,
    decay: graph.table("scan.decay", [1, HEADS]),
    bias: graph.vector("scan.bias", HEADS),
    skip: graph.table("scan.skip", [1, HEADS]),
    heads: HEADS,
    headWidth: 8,
    groups: 2,
    stateWidth: STATE_WIDTH,
  });
  const normed = graph.emit("row norm", {
    kind: "rms-norm",
    input: graph.glu(remembered, scanned, "relu"),
    weight: graph.table("row.norm", [8, HEADS]),
    groupWidth: 8,
    rowWeights: true,
    epsilon: 1e-5,
  });
  const half = (offset: number): ValueId =>
    graph.emit("half", { kind: "head-columns", input, heads: HEADS, offset, width: HEAD_WIDTH / 2 });
  const sum = graph.add(normed, graph.glu(half(0), half(8), "identity"));
  const before = graph.emit("before", { kind: "previous-row", state: 3, input: sum, width: HEADS * 8 });
  graph.stateWrite(3, sum);
  return graph.add(sum, before);
}

/** One layer with every kind of group, and what does not fuse besides. */
function smallProgram(): Program {
  const graph = new GraphBuilder({
    fileName: (name) => name,
    hasTensor: (name) => ["q.bias", "factors", "layer.bias", "both.bias", "experts.scale"].includes(name),
  });
  const wide = (name: string, input: number, outputs: number, inputs = WIDTH): number =>
    graph.matmul(input, name, { inputs, outputs });
  const { hidden, logits } = graph.segment("all", 0, () => {
    const input = graph.embed("table", WIDTH, VOCABULARY, { scale: 8 });
    const rope = graph.ropeTable({
      ratio: 0.5,
      stretches: Array.from({ length: HEAD_WIDTH / 2 }, () => 1),
      magnitude: 1,
    });
    const factors = graph.vector("factors", HEAD_WIDTH / 2);
    const rotation = { headWidth: HEAD_WIDTH, rotaryWidth: HEAD_WIDTH, style: "halves", rope, factors } as const;
    const normed = graph.rmsNorm(input, "norm", 1e-5);
    const query = wide("q", normed, HEADS * HEAD_WIDTH);
    const key = wide("k", normed, KV_HEADS * HEAD_WIDTH);
    const value = wide("v", normed, KV_HEADS * HEAD_WIDTH);
    const shape = {
      layer: 0,
      heads: HEADS,
      kvHeads: KV_HEADS,
      keyWidth: HEAD_WIDTH,
      valueWidth: HEAD_WIDTH,
      scale: 0.25,
      window: 5,
      softCap: 3,
      sinks: graph.vector("sinks", HEADS),
    };
    const attended = graph.attention(
      graph.rope(query, { heads: HEADS, ...rotation }),
      graph.rope(key, { heads: KV_HEADS, ...rotation }),
      value,
      shape,
    );
    const middle = graph.add(input, wide("o", attended, WIDTH, HEADS * HEAD_WIDTH));
    const fed = graph.rmsNorm(middle, "ffn", 1e-5);
    const gated = graph.glu(wide("gate", fed, INNER), wide("up", fed, INNER), "gelu");
    const sum = graph.add(middle, wide("down", gated, WIDTH, INNER));
    const recurrent = graph.matmul(recurrentLayers(graph, sum), "recurrent", { inputs: HEADS * 8, outputs: WIDTH });
    const mixed = expertsAndLatent(graph, graph.add(recurrent, sum));
    const quantized = graph.rmsNorm(graph.quantizeActivations(mixed), "heads", 1e-6, HEAD_WIDTH);
    const kept = graph.selectRows(graph.rope(quantized, { heads: 4, ...rotation }), "outputs");
    return {
      hidden: kept,
      logits: graph.matmul(graph.selectRows(kept, "scored"), "output", {
        inputs: WIDTH,
        outputs: VOCABULARY,
        softCap: 4,
      }),
    };
  });
  return graph.finish({
    kv: KV_SHAPE,
    vocabularySize: VOCABULARY,
    hidden,
    logits,
  });
}

export function validSpec(isa: string, threads: number, deterministic: boolean): NativeProgramSpec {
  const program = smallProgram();
  const types: readonly SupportedTypeName[] = ["Q8_0", "Q4_0", "F16", "IQ4_NL"];
  const descriptors = program.weights.map(({ name, shape, role }, id): TensorDescriptor => {
    const fitting = shape[0] % 32 === 0 ? types[id % types.length] : "F16";
    const layout = layoutByName(role === "vector" ? "F32" : fitting);
    const elements = shape.reduce((total, dimension) => total * dimension, 1);
    return { name, layout, shape, elements, sizeBytes: (elements / layout.blockElements) * layout.blockBytes };
  });
  const limits = {
    maxTokens: 16,
    maxOutputs: 8,
    contextTokens: BLOCK_TOKENS * BLOCKS,
    blockTokens: BLOCK_TOKENS,
    kvCacheType: "f16",
  } as const;
  return lower(fuseExperts(program), descriptors, limits, { isa, threads, deterministic });
}

export function validStep(): NativeStepInput {
  return {
    tokens: Int32Array.of(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11),
    positions: Int32Array.of(0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 1),
    sequenceOffsets: Int32Array.of(0, 9, 11),
    blockTables: Int32Array.of(3, 0, 5, 2, 1, 0, 3, 2),
    tableOffsets: Int32Array.of(0, 3, 4, 7, 8),
    stateReads: Int32Array.of(1, -1),
    stateWrites: Int32Array.of(-1, -1, 0, -1, -1, -1, -1, -1, 1, 2, -1),
    outputs: [
      { row: 2, want: "hidden", count: 0, biasIds: undefined, biasValues: undefined, allowMask: undefined },
      {
        row: 8,
        want: "candidates",
        count: 5,
        biasIds: Int32Array.of(3, 39),
        biasValues: Float32Array.of(1, -1),
        allowMask: Uint32Array.of(0xffffffff, 0xff),
      },
      { row: 10, want: "logits", count: 0, biasIds: undefined, biasValues: undefined, allowMask: undefined },
    ],
  };
}
