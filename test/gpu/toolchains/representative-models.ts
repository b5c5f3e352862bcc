// Models whose kernels are compiled, as programs and descriptors without a byte of weights: published shapes in every mix of
// types that files have, every family with every type and with the odd shapes of test/conformance/models/random-cases.ts, and
// a made-up one with every attribute that operations have. What the backend refuses is left out, so no list of types is kept
// here.

import type { Program } from "../../../src/graph/program.js";
import type { HyperParameters } from "../../../src/architectures/descriptor.js";
import { buildWithDraftHead } from "../../../src/architectures/draft-head.js";
import { detectArchitecture } from "../../../src/architectures/registry.js";
import { supportsOperation } from "../../../src/backends/gpu/lowering/operation-table.js";
import { SHAPES } from "../../../src/cli/synth/shape.js";
import { synthPlan } from "../../../src/cli/synth/model-plan.js";
import { MIX_NAMES, type MixName } from "../../../src/cli/synth/type-mix.js";
import { GgufMetadata } from "../../../src/gguf/metadata.js";
import type { HeaderPlan } from "../../../src/gguf/header-encoder.js";
import { GraphBuilder } from "../../../src/graph/builder.js";
import { fuseForGpu } from "../../../src/backends/gpu/lowering/lowering.js";
import type { FusedProgram } from "../../../src/graph/fusion.js";
import { type ValueId, weightsOf } from "../../../src/graph/operation.js";
import { asFloats } from "../../../src/loader/widened-tensor.js";
import { layoutByName, type SupportedTypeName } from "../../../src/quant/layout.js";
import type { TensorDescriptor } from "../../../src/tensor/descriptor.js";
import { latentCase, mixedLayersCase, preparedCase } from "../../conformance/attention-forms.js";
import { type ProgramCase, programOf } from "../../conformance/harness.js";
import { draftHeadModel, familyModel } from "../../conformance/models/family-model.js";
import { FAMILY_NAMES, familyCase } from "../../conformance/models/family-shapes.js";
import { SHAPE_CASES, TYPE_CASES } from "../../conformance/models/random-cases.js";
import { randomModel } from "../../conformance/models/random-model.js";

/** Enough for every pair of neighbours that a mix of types makes. */
const LAYERS = 8;
/** No other dimension of a published shape. */
const FEW_WORDS = 300;

export interface RepresentativeModel {
  readonly name: string;
  readonly fused: FusedProgram;
  readonly weights: readonly TensorDescriptor[];
}

export function representativeModels(): readonly RepresentativeModel[] {
  const published = Object.entries(SHAPES).flatMap(([name, shape]) => {
    // The words of a vocabulary take seconds to make up and no kernel sees them, only their number.
    const wordless = { ...shape, layers: LAYERS, vocabulary: { ...SHAPES.tinyllama.vocabulary, size: FEW_WORDS } };
    const sized = (dimension: number): number => (dimension === FEW_WORDS ? shape.vocabulary.size : dimension);
    return MIX_NAMES.map((mix) => {
      const { metadata, tensors } = synthPlan(name, wordless, { mix, seed: 1 });
      return modelOf(`${name} ${mix}`, {
        metadata,
        tensors: tensors.map((tensor) => ({ ...tensor, shape: tensor.shape.map(sized) })),
      });
    });
  });
  const typed = TYPE_CASES.map(({ name, spec }) => modelOf(name, randomModel({ ...spec, layers: 1 })));
  const shaped = SHAPE_CASES.map(({ name, spec }) => modelOf(name, randomModel(spec)));
  const attributed = ATTRIBUTED_TYPES.map(attributedModel);
  const forms = FORMS.map(([name, wanted]) => formModel(name, wanted));
  const families = [...familyModels(), draftingModelOf("draft head", draftHeadModel(1, familyCase("qwen35", 1).shape))];
  const distinct = new Map(
    [...published, ...typed, ...shaped, ...attributed, ...forms, ...families].map((model) => [
      kernelsDependOn(model),
      model,
    ]),
  );
  return [...distinct.values()].filter(isSupported);
}

/** A small model of every family, with weights of F32: what only some of them have, as layer norms and groups of experts. */
function familyModels(): readonly RepresentativeModel[] {
  return FAMILY_NAMES.map((family) => familyCase(family, 0))
    .map(({ name, seed, shape }) => modelOf(name, familyModel(seed, shape)))
    .filter(isSupported);
}

/** A published shape of few layers, its matrices of a mix of types. */
export function publishedModel(name: keyof typeof SHAPES, mix: MixName): RepresentativeModel {
  const shape = { ...SHAPES[name], layers: 3, vocabulary: { ...SHAPES.tinyllama.vocabulary, size: FEW_WORDS } };
  return modelOf(name, synthPlan(name, shape, { mix, seed: 1 }));
}

const ATTRIBUTED_TYPES: readonly SupportedTypeName[] = ["Q4_K", "F16"];
const ATTRIBUTED_WIDTH = 1024;
const ATTRIBUTED_HEADS = { layer: 0, heads: 8, kvHeads: 2, keyWidth: 256, valueWidth: 256, scale: 1 / 16 } as const;

/** A layer with heads of 256, a window, soft-caps, sinks, GELU gating and a scaled embedding. */
function attributedModel(type: SupportedTypeName): RepresentativeModel {
  const { heads, kvHeads, keyWidth, valueWidth } = ATTRIBUTED_HEADS;
  const width = ATTRIBUTED_WIDTH;
  const matrices: Readonly<Record<string, readonly [inputs: number, outputs: number]>> = {
    q: [width, heads * keyWidth],
    k: [width, kvHeads * keyWidth],
    v: [width, kvHeads * valueWidth],
    o: [heads * valueWidth, width],
    gate: [width, width],
    up: [width, width],
    output: [width, FEW_WORDS],
  };
  const descriptors = new Map(
    [
      { name: "table", type, shape: [width, FEW_WORDS] },
      { name: "sinks", type: "F32" as const, shape: [heads] },
      ...Object.entries(matrices).map(([name, shape]) => ({ name: `${name}.weight`, type, shape })),
    ].map((tensor) => [tensor.name, descriptorOf(tensor)]),
  );
  const graph = new GraphBuilder({ fileName: (name) => name, hasTensor: (name) => descriptors.has(name) });
  const matmul = (input: ValueId, name: string, softCap?: number): ValueId =>
    graph.matmul(input, name, {
      inputs: matrices[name][0],
      outputs: matrices[name][1],
      ...(softCap === undefined ? {} : { softCap }),
    });
  const { hidden, logits } = graph.segment("layer", 0, () => {
    const input = graph.embed("table", width, FEW_WORDS, { scale: 32 });
    const [query, key, value] = ["q", "k", "v"].map((name) => matmul(input, name));
    const rope = graph.ropeTable({
      ratio: 0.9,
      stretches: Array.from({ length: keyWidth / 2 }, () => 1),
      magnitude: 1,
    });
    const rotation = { headWidth: keyWidth, rotaryWidth: keyWidth, style: "halves", rope } as const;
    const sinks = graph.optionalVector("sinks", heads);
    const attended = graph.attention(
      graph.rope(query, { heads, ...rotation }),
      graph.rope(key, { heads: kvHeads, ...rotation }),
      value,
      { ...ATTRIBUTED_HEADS, window: 1024, softCap: 50, ...(sinks === undefined ? {} : { sinks }) },
    );
    const residual = graph.add(input, matmul(attended, "o"));
    const gated = graph.glu(matmul(residual, "gate"), matmul(residual, "up"), "gelu");
    const outputs = graph.selectRows(gated, "outputs");
    return { hidden: outputs, logits: matmul(graph.selectRows(outputs, "scored"), "output", 30) };
  });
  const kv = { layers: 1, kvHeads, keyWidth, valueWidth };
  const program = graph.finish({ kv, vocabularySize: FEW_WORDS, hidden, logits });
  const weights = program.weights.flatMap(({ name }) => descriptors.get(name) ?? []);
  return { name: `every attribute, ${type}`, fused: fuseForGpu(program), weights };
}

const SMALL_HEADS = { heads: 6, kvHeads: 3, keyWidth: 64, valueWidth: 64 };
const LAST_COLUMNS = { rotaryWidth: 16, firstColumn: 48, style: "halves" } as const;

/** Forms of attention that published shapes do not have. */
const FORMS: readonly (readonly [name: string, wanted: ProgramCase])[] = [
  [
    "norms after the rotation, in chunks",
    preparedCase(
      { heads: SMALL_HEADS, norm: "after", normType: "F16", rotation: LAST_COLUMNS, attributes: { chunk: 8192 } },
      "f16",
      FEW_WORDS,
    ),
  ],
  [
    "norms without weights, with a temperature",
    preparedCase(
      {
        heads: { ...SMALL_HEADS, kvHeads: 6 },
        norm: "before",
        unweighted: true,
        valueNorm: true,
        attributes: { temperature: 0.1, temperatureLength: 8192, temperatureOffset: 1 },
      },
      "f16",
      FEW_WORDS,
    ),
  ],
  [
    "wide heads with a window",
    preparedCase(
      {
        heads: { heads: 16, kvHeads: 2, keyWidth: 512, valueWidth: 512 },
        norm: "before",
        normType: "BF16",
        rotation: { rotaryWidth: 128, style: "halves", factors: true },
        attributes: { window: 1024, softCap: 30 },
      },
      "f16",
      FEW_WORDS,
    ),
  ],
  ["latent attention of 128 heads", latentCase({ heads: 128, latentWidth: 512, rotaryWidth: 64 }, "f16", FEW_WORDS)],
  ["layers of different shapes", mixedLayersCase("f16", FEW_WORDS)],
];

export function formModel(name: string, wanted: ProgramCase): RepresentativeModel {
  const program = programOf(wanted);
  const weights = program.weights.map((weight) =>
    descriptorOf({ name: weight.name, type: wanted.weights[weight.name].type, shape: weight.shape }),
  );
  return { name, fused: fuseForGpu(program), weights };
}

/** Models that differ in nothing else (their rope scaling, say) have the same kernels. */
function kernelsDependOn({ fused, weights }: RepresentativeModel): string {
  return JSON.stringify([fused.program.operations, weights.map(({ layout, shape }) => [layout.id, shape])]);
}

/** A model, with what its draft head needs if it has one that can be run. */
export function draftingModelOf(name: string, plan: HeaderPlan): RepresentativeModel {
  return modelOf(name, plan, buildWithDraftHead);
}

export function modelOf(
  name: string,
  { metadata, tensors }: HeaderPlan,
  build?: (graph: GraphBuilder, parameters: HyperParameters) => Program,
): RepresentativeModel {
  const descriptors = new Map(tensors.map((tensor) => [tensor.name, descriptorOf(tensor)]));
  const { descriptor, source } = detectArchitecture(new GgufMetadata(metadata), descriptors);
  const graph = new GraphBuilder({ fileName: source.fileName, hasTensor: (tensor) => descriptors.has(tensor) });
  const parameters = descriptor.readHyperParameters(source);
  const program = build === undefined ? descriptor.buildGraph(graph, parameters) : build(graph, parameters);
  const weights = program.weights.map((weight) => {
    const found = descriptors.get(weight.name);
    if (found === undefined) throw new TypeError(`${name} has no ${weight.name}`);
    return (weight.isGate === true ? asFloats(found) : undefined) ?? found;
  });
  return { name, fused: fuseForGpu(program), weights };
}

function descriptorOf({ name, type, shape }: HeaderPlan["tensors"][number]): TensorDescriptor {
  const layout = layoutByName(type);
  const elements = shape.reduce((total, dimension) => total * dimension, 1);
  return { name, layout, shape, elements, sizeBytes: (elements / layout.blockElements) * layout.blockBytes };
}

function isSupported({ fused, weights }: RepresentativeModel): boolean {
  return fused.program.operations.every(
    (operation) =>
      supportsOperation(
        operation,
        weightsOf(operation).map((id) => weights[id]),
      ) === true,
  );
}
