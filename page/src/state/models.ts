// The served models and their load state. Polled while one of them is being loaded, otherwise read when the page is
// shown and after each answer.

import { computed, signal } from "@preact/signals";
import { ApiError } from "../api/client";
import { listModels, loadModel, type ServedModel } from "../api/models";
import { chosenModel } from "../store/preferences";

const LOADING_INTERVAL_MS = 700;
const UNREACHABLE_INTERVAL_MS = 3000;

export const models = signal<readonly ServedModel[]>([]);
/** Why the models are not known. */
export const modelsError = signal<string | undefined>(undefined);

/** The model that questions go to: the chosen one if it is served, otherwise the first. */
export const model = computed(() => models.value.find(({ id }) => id === chosenModel.value) ?? models.value[0]);

let timer: ReturnType<typeof setTimeout> | undefined;

export async function refreshModels(): Promise<void> {
  clearTimeout(timer);
  try {
    models.value = await listModels();
    modelsError.value = undefined;
    if (models.value.some(({ state }) => state === "loading")) again(LOADING_INTERVAL_MS);
  } catch (error) {
    modelsError.value = error instanceof Error ? error.message : String(error);
    // Without a key there is nothing to wait for.
    if (error instanceof ApiError && error.status === 0) again(UNREACHABLE_INTERVAL_MS);
  }
}

function again(afterMs: number): void {
  if (!document.hidden) timer = setTimeout(() => void refreshModels(), afterMs);
}

document.addEventListener("visibilitychange", () => void (document.hidden || refreshModels()));

/** Chooses a model for the next questions. */
export function chooseModel(id: string): void {
  chosenModel.value = id;
}

/** Loads a model before its first question. */
export async function loadChosen(id: string): Promise<void> {
  const loaded = loadModel(id);
  setTimeout(() => void refreshModels(), 100);
  await loaded.catch((error: unknown) => {
    modelsError.value = error instanceof Error ? error.message : String(error);
  });
  await refreshModels();
}
