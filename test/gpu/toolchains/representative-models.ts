// Models whose kernels are compiled, as programs and descriptors without a byte of weights: published shapes in every mix of
// types that files have, and every family with every type and with the odd shapes of test/conformance/models/random-cases.ts.
// What the backend refuses is left out by its own word, so no list of types is kept here.

import { detectArchitecture } from "../../../src/architectures/registry.js";
import { supportsOperation } from "../../../src/backends/gpu/lowering/operation-support.js";
import { SHAPES } from "../../../src/cli/synth/shape.js";
import { synthPlan } from "../../../src/cli/synth/model-plan.js";
import { MIX_NAMES } from "../../../src/cli/synth/type-mix.js";
import { GgufMetadata } from "../../../src/gguf/metadata.js";
import type { HeaderPlan } from "../../../src/gguf/header-encoder.js";
import { GraphBuilder } from "../../../src/graph/builder.js";
import { type FusedProgram, fuse } from "../../../src/graph/fusion.js";
import { weightsOf } from "../../../src/graph/operation.js";
import { layoutByName } from "../../../src/quant/layout.js";
import type { TensorDescriptor } from "../../../src/tensor/descriptor.js";
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
  const distinct = new Map([...published, ...typed, ...shaped].map((model) => [kernelsDependOn(model), model]));
  return [...distinct.values()].filter(isSupported);
}

/** Models that differ in nothing else (their rope scaling, say) have the same kernels. */
function kernelsDependOn({ fused, weights }: RepresentativeModel): string {
  return JSON.stringify([fused.program.operations, weights.map(({ layout, shape }) => [layout.id, shape])]);
}

export function modelOf(name: string, { metadata, tensors }: HeaderPlan): RepresentativeModel {
  const descriptors = new Map(tensors.map((tensor) => [tensor.name, descriptorOf(tensor)]));
  const { descriptor, source } = detectArchitecture(new GgufMetadata(metadata), descriptors);
  const graph = new GraphBuilder({ fileName: source.fileName, hasTensor: (tensor) => descriptors.has(tensor) });
  const program = descriptor.buildGraph(graph, descriptor.readHyperParameters(source));
  const weights = program.weights.map((weight) => {
    const found = descriptors.get(weight.name);
    if (found === undefined) throw new TypeError(`${name} has no ${weight.name}`);
    return found;
  });
  return { name, fused: fuse(program), weights };
}

function descriptorOf({ name, type, shape }: HeaderPlan["tensors"][number]): TensorDescriptor {
  const layout = layoutByName(type);
  const elements = shape.reduce((product, dimension) => product * dimension, 1);
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
