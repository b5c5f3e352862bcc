// Rewrites messages of the library for the command line. The library marks an option in a text by `optionText`, as its
// own callers write it: `contextTokens: 2048`. A user of the command line knows it as --ctx 2048, and reads that
// instead.

import { OptionError } from "../errors.js";
import { SAMPLER_KEYS } from "./sampling-options.js";

/** The library's option names, and the command line's name of each. */
const COMMAND_LINE_NAMES: ReadonlyMap<string, string> = new Map([
  ["backend", "--backend"],
  ["contextTokens", "--ctx"],
  ["kvCacheType", "--kv-type"],
  ["ignoreMemoryCheck", "--force"],
  ["offline", "--offline"],
  ["warmUp", "--no-warm-up"],
  ["threads", "--threads"],
  ["device", "--device"],
  ["deterministic", "--deterministic"],
  ["draft", "--draft"],
  ["draftModel", "--draft-model"],
  ["prompt", "--prompt"],
  ["maxTokens", "--tokens"],
  ["stop", "--stop"],
  ["ignoreEndOfGeneration", "--ignore-eos"],
  ["windowTokens", "--ctx"],
  ["logitBias", "--logit-bias"],
  ["models", "--model"],
  ["host", "--host"],
  ["port", "--port"],
  ["ollamaPort", "--ollama-port"],
  ["apiKeys", "--api-key-file"],
  ["corsOrigins", "--cors"],
  ["allowedHosts", "--allowed-host"],
  ["strict", "--strict"],
  ["idleTimeoutMs", "--idle-minutes"],
  ["logLevel", "--log-level"],
  ["logPrompts", "--log-prompts"],
  ["maxSequences", "--max-concurrent"],
  ["maxQueued", "--max-queue"],
  ["stateCacheSlots", "--state-cache-slots"],
  ["bodyBytes", "--max-body"],
  ["receivingBytes", "--max-receiving"],
  ["promptTokens", "--max-prompt-tokens"],
  ["loadTokenizer", "`rocmforge tokenize`"],
  ...Object.entries(SAMPLER_KEYS).map(([name, key]): [string, string] => [key, `--${name}`]),
]);

/** An option as `optionText` writes it. */
const MARKED = /`(?<name>\w+)(?:: (?<value>"[^"`]*"|[\w.+-]+))?`/g;

/** Whether the command line has an option for this option of the library. */
export function hasCommandLineName(option: string): boolean {
  return COMMAND_LINE_NAMES.has(option);
}

/** Replaces the library's options in a text by those of the command line. */
export function inCommandLineWords(text: string): string {
  return text.replace(MARKED, (whole, name: string, value: string | undefined) => {
    const option = COMMAND_LINE_NAMES.get(name);
    if (option === undefined) return whole;
    return value === undefined ? option : `${option} ${value.replace(/^"|"$/g, "")}`;
  });
}

/** An error's message; for a refused option it names the command instead of the function. */
export function messageFor(error: Error, command: string): string {
  const option = error instanceof OptionError ? error.details["option"] : undefined;
  const name = typeof option === "string" ? COMMAND_LINE_NAMES.get(option) : undefined;
  const refusal = /^\[[^\]]*\] (?<option>\w+): (?<rest>[^]*)$/.exec(error.message)?.groups;
  const own =
    name !== undefined && refusal?.["option"] === option ? `[${command}] ${name}: ${refusal?.["rest"]}` : error.message;
  return inCommandLineWords(own);
}
