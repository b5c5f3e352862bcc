// Tells names of models from paths by their beginning. Separate and small, so that opening a path loads none of the
// code that finds and downloads models.

const SCHEME = /^(?:hf|ollama|https?):/i;
/** How a name begins that a shell or a browser may have changed: `HF:`, ` https:`. */
const WINDOWS_DRIVE = /^[a-z]:[\\/]/i;

/** Whether a text names a model on the hub, at an address or of Ollama's; anything else is a path. */
export function isModelName(text: string): boolean {
  return SCHEME.test(text) && !WINDOWS_DRIVE.test(text);
}
