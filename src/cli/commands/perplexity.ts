// `rocmforge perplexity`: how well a model predicts a text, counted window by window as llama.cpp counts it.

import { loadModel } from "../../model/load-model.js";
import type { PerplexityProgress } from "../../model/perplexity.js";
import { defineCommand } from "../command.js";
import { countOf } from "../format.js";
import { Interrupt } from "../interrupt.js";
import { modelFile } from "../model-file.js";
import { GENERAL_OPTIONS, loadOptions, MODEL_OPTIONS } from "../model-options.js";
import { type OptionTable, wrongValue } from "../option-table.js";
import { Progress } from "../progress.js";
import { readText } from "../text-input.js";

const NAME = "perplexity";
/** The second half of a window is scored, and nothing follows its last token: three tokens leave one. */
const MIN_WINDOW_TOKENS = 3;
const SHOWN_DIGITS = 4;

const OPTIONS = {
  file: { kind: "path", short: "f", placeholder: "FILE", description: "the text, - for stdin" },
  json: { kind: "flag", description: "print one JSON object" },
  ...MODEL_OPTIONS,
  ctx: {
    ...MODEL_OPTIONS.ctx,
    range: { ...MODEL_OPTIONS.ctx.range, from: MIN_WINDOW_TOKENS },
    description: "tokens per window",
  },
  ...GENERAL_OPTIONS,
} as const satisfies OptionTable;

/** The command `perplexity`. */
export const perplexity = defineCommand({
  name: NAME,
  summary: "measures how well a model predicts a text",
  about: [
    "The text is split into windows of --ctx tokens; the remainder is not scored. Each window is computed separately, starts",
    "with BOS if the model adds one, and only its second half is scored.",
  ],
  positionals: [],
  options: OPTIONS,
  examples: [
    { what: "windows of 256 tokens", line: "rocmforge perplexity -m model.gguf -f text.txt --ctx 256" },
    { what: "the result as JSON", line: "rocmforge perplexity -m model.gguf -f text.txt --json" },
  ],
  async run(values, _positionals, { output }) {
    if (values.file === undefined) throw wrongValue(NAME, "file", "a text: -f FILE, or -f - for stdin", "nothing");
    const text = await readText(values.file);
    using interrupt = new Interrupt();
    using progress = new Progress("opening the model");
    await using model = await loadModel(await modelFile(values), loadOptions(values, progress));
    progress.update("reading the text");
    let result: PerplexityProgress | undefined;
    try {
      for await (const window of model.perplexity(text, { signal: AbortSignal.any([interrupt.signal, output.gone]) })) {
        progress.update(
          `window ${window.window} of ${window.windows}, perplexity ${window.perplexity.toFixed(SHOWN_DIGITS)}`,
        );
        result = window;
      }
    } catch (error) {
      if (!interrupt.signal.aborted) throw error;
      progress.end();
      process.stderr.write("rocmforge: interrupted; a part of the text has no meaningful result\n");
      return interrupt.exitStatus;
    }
    progress.end();
    if (result === undefined) throw new TypeError("the measurement ended without a window");
    const { window: _window, ...measured } = result;
    if (values.json) await output.writeJson(measured);
    else await output.write(describeResult(measured));
    return 0;
  },
});

function describeResult(result: Omit<PerplexityProgress, "window">): string {
  const { perplexity: value, meanNll, windows, scoredTokens, windowTokens, tokens } = result;
  return (
    `perplexity ${value.toFixed(SHOWN_DIGITS)} (mean negative log-likelihood ${meanNll.toFixed(SHOWN_DIGITS + 2)})\n` +
    `${countOf(scoredTokens, "token")} scored in ${countOf(windows, "window")} of ${countOf(windowTokens, "token")}; the text has ${countOf(tokens, "token")}\n`
  );
}
