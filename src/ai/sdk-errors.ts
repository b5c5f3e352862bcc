// Errors in the form of the AI SDK, which recognises its own by symbols of the global registry, not by their class: so
// `NoSuchModelError.isInstance(error)` of its package is true for these, which are errors of this package too.

import { ServingError } from "../errors.js";

const SDK_ERROR = Symbol.for("vercel.ai.error");
const NO_SUCH_MODEL = Symbol.for("vercel.ai.error.AI_NoSuchModelError");
const UNSUPPORTED_FUNCTIONALITY = Symbol.for("vercel.ai.error.AI_UnsupportedFunctionalityError");

/** The provider has no model of that name. */
export class NoSuchModelError extends ServingError {
  override readonly name = "AI_NoSuchModelError";
  readonly [SDK_ERROR] = true;
  readonly [NO_SUCH_MODEL] = true;
  readonly modelId: string;
  readonly modelType: "languageModel" | "embeddingModel" | "imageModel";

  constructor({
    modelId,
    modelType,
    known,
  }: Pick<NoSuchModelError, "modelId" | "modelType"> & {
    readonly known: readonly string[];
  }) {
    const expected = known.length === 0 ? "this provider has none of this kind" : `expected one of ${known.join(", ")}`;
    super("SERVING_MODEL_UNKNOWN", `No such ${modelType}: ${modelId}; ${expected}`, {
      details: { modelId, modelType, known },
    });
    this.modelId = modelId;
    this.modelType = modelType;
  }
}

/** A prompt has a part that models of this package cannot read. */
export class UnsupportedFunctionalityError extends ServingError {
  override readonly name = "AI_UnsupportedFunctionalityError";
  readonly [SDK_ERROR] = true;
  readonly [UNSUPPORTED_FUNCTIONALITY] = true;
  /** What is not supported, in a few words. */
  readonly functionality: string;

  constructor(functionality: string, message: string) {
    super("SERVING_REQUEST", message, { details: { functionality } });
    this.functionality = functionality;
  }
}
