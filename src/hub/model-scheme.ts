// Tells names of models from paths by their beginning. Separate and small, so that opening a path loads none of the
// code that finds and downloads models.

/** Two letters or more, so that no drive of Windows is one. */
const SCHEME = /^(?:hf|ollama|https?):/i;

/** Whether a text names a model on the hub, at an address or of Ollama's; anything else is a path. */
export function isModelName(text: string): boolean {
  return SCHEME.test(text);
}
