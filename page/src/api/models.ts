// GET /v1/models, and loading a model before its first question.

import { request } from "./client";

/** Whether a model is in memory. */
export type ModelState = "unloaded" | "loading" | "loaded" | "failed";

/** A served model. */
export interface ServedModel {
  readonly id: string;
  readonly state: ModelState;
  /** Null until the model has been loaded. */
  readonly context_length: number | null;
}

export async function listModels(signal?: AbortSignal): Promise<readonly ServedModel[]> {
  const response = await request("/v1/models", signal === undefined ? {} : { signal });
  const { data } = (await response.json()) as { data: readonly ServedModel[] };
  return data;
}

/** Resolves when the model is loaded: any request for a model loads it, and tokenizing nothing is the cheapest. */
export async function loadModel(model: string): Promise<void> {
  await request("/tokenize", { body: { model, content: "" } });
}
