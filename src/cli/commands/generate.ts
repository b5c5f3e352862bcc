// `rocmforge generate`: continues a prompt, streaming the text to stdout; a summary line goes to stderr.

import { channel } from "node:diagnostics_channel";
import type { Generation, GenerationResult } from "../../model/generation.js";
import { loadModel } from "../../model/load-model.js";
import { type CommandContext, defineCommand } from "../command.js";
import { countOf, formatDuration, formatRate, printable } from "../format.js";
import { Interrupt } from "../interrupt.js";
import { modelFile } from "../model-file.js";
import { DRAFT_OPTIONS } from "../draft-options.js";
import { GENERAL_OPTIONS, loadOptions, MODEL_OPTIONS } from "../model-options.js";
import { type OptionTable, type OptionValues, wrongValue } from "../option-table.js";
import { Progress } from "../progress.js";
import { samplerOptions, SAMPLING_NOTE, SAMPLING_OPTIONS } from "../sampling-options.js";
import { readText } from "../text-input.js";
import { GENERATION_OPTIONS } from "../generation-options.js";

const NAME = "generate";

/** Reports the load timings to `bench`. */
const loadChannel = channel("rocmforge.load");

const OPTIONS = {
  prompt: { kind: "text", short: "p", placeholder: "TEXT", description: "text to continue" },
  file: {
    kind: "path",
    short: "f",
    placeholder: "FILE",
    description: "read the prompt from a file, - for stdin; a trailing line break is dropped",
  },
  ...GENERATION_OPTIONS,
  "ignore-eos": { kind: "flag", description: "continue past end-of-sequence tokens" },
  "no-parse-special": { kind: "flag", description: "treat the text of special tokens in the prompt as text" },
  "no-echo": { kind: "flag", description: "print the continuation without the prompt" },
  json: { kind: "flag", description: "print one JSON object at the end" },
  ...SAMPLING_OPTIONS,
  ...MODEL_OPTIONS,
  ...DRAFT_OPTIONS,
  ...GENERAL_OPTIONS,
} as const satisfies OptionTable;

type Values = OptionValues<typeof OPTIONS>;

/** The command `generate`. */
export const generate = defineCommand({
  name: NAME,
  summary: "continues a prompt",
  about: [
    "The text is streamed; Ctrl-C stops it. A line with tokens, speed and seed follows on stderr.",
    SAMPLING_NOTE,
  ],
  positionals: [],
  options: OPTIONS,
  examples: [
    { what: "a story by the embedded model", line: 'rocmforge generate -p "Once upon a time" -n 100' },
    {
      what: "greedy decoding, as JSON",
      line: 'rocmforge generate -m model.gguf -p "The capital of France is" -n 8 --temp 0 --json',
    },
    {
      what: "a prompt from a pipe, only the continuation, stopping at an empty line",
      line: "rocmforge generate -f - --no-echo --stop $'\\n\\n' < prompt.txt",
    },
  ],
  async run(values, _positionals, context) {
    const prompt = await promptOf(values);
    const sampling = samplerOptions(NAME, values);
    using interrupt = new Interrupt();
    using progress = new Progress("opening the model");
    await using model = await loadModel(await modelFile(values), {
      ...loadOptions(values, progress),
      firstPrompt: prompt,
    });
    const generation = model.generate(prompt, {
      ...sampling,
      ...(values.tokens === undefined ? {} : { maxTokens: values.tokens }),
      stop: values.stop,
      ignoreEndOfGeneration: values["ignore-eos"],
      parseSpecial: !values["no-parse-special"],
      signal: AbortSignal.any([interrupt.signal, context.output.gone]),
    });
    progress.update("prefilling the prompt");
    const write = values.json ? writeJson : streamText;
    await write({ generation, prompt, values, progress, context });
    if (loadChannel.hasSubscribers) loadChannel.publish(model.loadTimings());
    return interrupt.exitStatus;
  },
});

interface Writing {
  readonly generation: Generation;
  readonly prompt: string;
  readonly values: Values;
  readonly progress: Progress;
  readonly context: CommandContext;
}

async function streamText({ generation, prompt, values, progress, context: { output } }: Writing): Promise<void> {
  // The prompt is printed with the first token: until then the terminal's line may show the progress.
  let waiting = values["no-echo"] ? "" : prompt;
  let last = "";
  const write = async (text: string): Promise<void> => {
    progress.end();
    const whole = output.isTerminal ? printable(waiting + text, "layout") : waiting + text;
    waiting = "";
    last = whole.at(-1) ?? last;
    await output.write(whole);
  };
  for await (const { text } of generation) await write(text);
  await write("");
  if (last !== "\n") await output.write("\n");
  if (!output.gone.aborted) process.stderr.write(`rocmforge: ${describeResult(await generation.result)}\n`);
}

async function writeJson({ generation, prompt, progress, context: { output } }: Writing): Promise<void> {
  const tokens: number[] = [];
  for await (const delta of generation) {
    tokens.push(...delta.tokens);
    progress.update(`writing, ${countOf(tokens.length, "token")}`);
  }
  progress.end();
  const { text, finishReason, usage, seed, timings } = await generation.result;
  await output.writeJson({
    prompt,
    text,
    tokens,
    reason: finishReason,
    promptTokens: usage.promptTokens,
    generatedTokens: usage.completionTokens,
    seed,
    timings,
  });
}

function describeResult({ finishReason, usage, seed, timings }: GenerationResult): string {
  const { promptMs, generateMs, promptTokensPerSecond, tokensPerSecond, draftedTokens, acceptedTokens } = timings;
  const drafts = draftedTokens === 0 ? "" : `, ${acceptedTokens} of ${countOf(draftedTokens, "draft token")} accepted`;
  return (
    `${countOf(usage.completionTokens, "token")} in ${formatDuration(promptMs + generateMs)} (${formatRate(tokensPerSecond)} tokens/s), ` +
    `prompt ${countOf(usage.promptTokens, "token")} (${formatRate(promptTokensPerSecond)} tokens/s)${drafts}, reason ${finishReason}, seed ${seed}`
  );
}

async function promptOf({ prompt, file }: Values): Promise<string> {
  if (prompt !== undefined && file !== undefined) throw wrongValue(NAME, "file", "either --prompt or --file", "both");
  if (prompt !== undefined) return prompt;
  if (file === undefined)
    throw wrongValue(NAME, "prompt", "a prompt: -p TEXT, or -f FILE, or -f - for stdin", "nothing");
  // Editors and `echo` end a file with a line break that is rarely part of the prompt.
  return (await readText(file)).replace(/\r?\n$/, "");
}
