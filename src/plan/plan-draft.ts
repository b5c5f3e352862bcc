// A plan before validation: the file's family, its graph, and its layers with all their problems.

import type { HyperParameters } from "../architectures/descriptor.js";
import { isRecurrent } from "../architectures/recurrent.js";
import { buildDraftHead, buildWithDraftHead } from "../architectures/draft-head.js";
import { detectArchitecture } from "../architectures/registry.js";
import type { Backend } from "../backends/contract.js";
import { withPath } from "../error-path.js";
import { BackendError, ModelError } from "../errors.js";
import { GraphBuilder } from "../graph/builder.js";
import type { Program } from "../graph/program.js";
import type { GgufLoader } from "../loader/gguf-loader.js";
import { nearestNames } from "../nearest.js";
import { type PlanConfig, resolvePlanConfig } from "./plan-config.js";
import { LayerPlan, type LayerProblem, MISSING } from "./layer-plan.js";

/** Searching similar names takes time that a hostile file could multiply, and one hint shows the pattern. */
const MAX_SUGGESTIONS = 3;
/** Problems listed in the error's text; its details contain all of them. */
const MAX_LISTED_PROBLEMS = 64;

/** Hyper-parameters, program and layers of a file, valid or not. */
export interface PlanDraft {
  readonly parameters: HyperParameters;
  readonly config: Required<PlanConfig>;
  readonly program: Program;
  readonly layers: readonly LayerPlan[];
  /** The program of the draft head, if it was asked for. */
  readonly draftProgram?: Program;
}

/** Reads the family, graph and layers that the file describes, without validating them. */
export function draftPlan(loader: GgufLoader, backend: Backend, config: PlanConfig): PlanDraft {
  try {
    return draft(loader, backend, config);
  } catch (error) {
    throw withPath(loader.file.path, error);
  }
}

function draft(loader: GgufLoader, backend: Backend, config: PlanConfig): PlanDraft {
  const { tensors } = loader;
  const { metadata } = loader.file;
  const { descriptor, source } = detectArchitecture(metadata, tensors);
  const parameters = descriptor.readHyperParameters(source);
  const resolved = resolvePlanConfig(config, parameters, backend);
  const newGraph = (): GraphBuilder =>
    new GraphBuilder({
      fileName: source.fileName,
      hasTensor: (name) => tensors.has(name),
      contextTokens: resolved.contextTokens,
    });
  const layersOf = (program: Program): LayerPlan[] =>
    program.segments.map((segment) => new LayerPlan(program, segment, loader, backend));
  const plain = (): PlanDraft => {
    const program = descriptor.buildGraph(newGraph(), parameters);
    return { parameters, config: resolved, program, layers: layersOf(program) };
  };
  const isAuto = resolved.draftHead === "auto";
  if (resolved.draftHead === false || (isAuto && !hasUsefulHead(parameters))) return plain();
  if (parameters.draftHead === undefined) throw noDraftHead(parameters.architecture);
  const program = buildWithDraftHead(newGraph(), parameters);
  const draftProgram = buildDraftHead(newGraph(), parameters, program);
  const draftLayers = layersOf(draftProgram);
  // A head with wrong tensors does not keep a model from running.
  if (isAuto && draftLayers.some((layer) => layer.validate().length > 0)) return plain();
  return { parameters, config: resolved, program, layers: [...layersOf(program), ...draftLayers], draftProgram };
}

function hasUsefulHead({ draftHead, layers }: HyperParameters): boolean {
  return draftHead !== undefined && layers.some(({ mixer }) => isRecurrent(mixer));
}

function noDraftHead(architecture: string): ModelError {
  return new ModelError(
    "MODEL_UNSUPPORTED",
    `[${architecture}] the model has no draft head (MTP) that can be run, nor is one beside it (mtp-*.gguf)`,
    {
      details: { architecture },
    },
  );
}

/** The error for a model that cannot run: MODEL_INVALID if tensors are wrong, otherwise BACKEND_UNSUPPORTED. */
export function unusableModel(
  problems: readonly LayerProblem[],
  loader: GgufLoader,
  backend: Backend,
): ModelError | BackendError {
  const { path } = loader.file;
  const tensorProblems = problems.filter(({ kind }) => kind === "tensor");
  if (tensorProblems.length > 0) {
    const [first, ...more] = sentences(tensorProblems, loader);
    const message = `[plan] ${path}: ${first}${others(tensorProblems, "with the model's tensors")}`;
    return new ModelError("MODEL_INVALID", message, { details: { path, problems: tensorProblems }, more });
  }
  const { name } = backend.description;
  const [first, ...more] = sentences(problems, loader);
  const message = `[plan] ${path}: the backend ${name} cannot run this model: ${first}${others(problems, "of that kind")}`;
  return new BackendError("BACKEND_UNSUPPORTED", message, { details: { path, backend: name, problems }, more });
}

function others(problems: readonly LayerProblem[], kind: string): string {
  return problems.length === 1 ? "" : `; the first of ${problems.length} problems ${kind}`;
}

/** Each problem as a sentence, up to MAX_LISTED_PROBLEMS. */
function sentences(problems: readonly LayerProblem[], loader: GgufLoader): string[] {
  const lines = problems.slice(0, MAX_LISTED_PROBLEMS).map(({ subject, expected, found }, index) => {
    const nearest = found === MISSING && index < MAX_SUGGESTIONS ? nearestNames(subject, loader.tensors.keys()) : [];
    const suggestion = nearest.length === 0 ? "" : ` (similar: ${nearest.join(", ")})`;
    return `${subject}: expected ${expected}, found ${found}${suggestion}`;
  });
  if (lines.length < problems.length) lines.push(`and ${problems.length - lines.length} more`);
  return lines;
}
