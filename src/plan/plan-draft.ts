// A plan before anybody has said that it can run: the file's family, its graph, and its layers with all their problems.

import type { HyperParameters } from "../architectures/descriptor.js";
import { detectArchitecture } from "../architectures/registry.js";
import type { Backend } from "../backends/contract.js";
import { BackendError, ModelError } from "../errors.js";
import { GraphBuilder } from "../graph/builder.js";
import type { Program } from "../graph/program.js";
import type { GgufLoader } from "../loader/gguf-loader.js";
import { nearestNames } from "../nearest.js";
import { LayerPlan, type LayerProblem, MISSING } from "./layer-plan.js";

/** Searching names takes time that a hostile file could multiply, and one hint shows the pattern. */
const MAX_SUGGESTIONS = 3;
/** In the message, which is one line; the error's details hold every problem. */
const MAX_LISTED_PROBLEMS = 16;

export interface PlanDraft {
  readonly parameters: HyperParameters;
  readonly program: Program;
  readonly layers: readonly LayerPlan[];
}

/** The layers as the file would have them, valid or not. */
export function draftPlan(loader: GgufLoader, backend: Backend): PlanDraft {
  const { tensors, metadata } = loader.file;
  const { descriptor, source } = detectArchitecture(metadata, tensors);
  const parameters = descriptor.readHyperParameters(source);
  const graph = new GraphBuilder({ fileName: source.fileName, hasTensor: (name) => tensors.has(name) });
  const program = descriptor.buildGraph(graph, parameters);
  const layers = program.segments.map((segment) => new LayerPlan(program, segment, loader, backend));
  return { parameters, program, layers };
}

/** The file's fault where tensors are wrong, else the backend's. */
export function unusableModel(
  problems: readonly LayerProblem[],
  loader: GgufLoader,
  backend: Backend,
): ModelError | BackendError {
  const tensorProblems = problems.filter(({ kind }) => kind === "tensor");
  if (tensorProblems.length > 0) {
    const message = `[plan] ${countOf(tensorProblems)} with the model's tensors: ${list(tensorProblems, loader)}`;
    return new ModelError("MODEL_INVALID", message, { details: { problems: tensorProblems } });
  }
  const { name } = backend.description;
  const message = `[plan] the backend ${name} cannot run this model, ${countOf(problems)}: ${list(problems, loader)}`;
  return new BackendError("BACKEND_UNSUPPORTED", message, { details: { backend: name, problems } });
}

function countOf(problems: readonly LayerProblem[]): string {
  return problems.length === 1 ? "1 problem" : `${problems.length} problems`;
}

function list(problems: readonly LayerProblem[], loader: GgufLoader): string {
  const lines = problems.slice(0, MAX_LISTED_PROBLEMS).map(({ subject, expected, found }, index) => {
    const nearest = found === MISSING && index < MAX_SUGGESTIONS ? nearestNames(subject, loader.file.tensors.keys()) : [];
    const suggestion = nearest.length === 0 ? "" : ` (nearest: ${nearest.join(", ")})`;
    return `${subject}: expected ${expected}, found ${found}${suggestion}`;
  });
  if (lines.length < problems.length) lines.push(`and ${problems.length - lines.length} more`);
  return lines.join("; ");
}
