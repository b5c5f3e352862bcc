// The options of `npm run bench:peers`. Anything that would leave a target unmeasured by mistake (an empty list, an
// unknown type) is refused.

import { accessSync, constants } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { OptionError } from "../../src/errors.js";
import { formatTable } from "../../src/cli/format.js";
import { parseNumber } from "../../src/cli/number-value.js";
import { type OptionTable, type OptionValues, parseOptions, wrongValue } from "../../src/cli/option-table.js";
import { chooseName } from "../../src/cli/synth/choice.js";
import { SHAPE_NAMES } from "../../src/cli/synth/shape.js";
import { MIX_NAMES, type MixName } from "../../src/cli/synth/type-mix.js";

const NAME = "bench:peers";
export const CACHE_FOLDER = join(process.cwd(), ".cache", "bench");
/** Kept in the repository; results of few runs stay beside the files they were measured with. */
const RESULT_FOLDER = join(process.cwd(), "bench", "results");
const KEPT_RUNS = 5;
const DEFAULT_DEPTH_TYPES: readonly MixName[] = ["Q4_K_M", "Q8_0"];

const MANY = { from: 1, to: 1000 };
const SIZE = { from: 1, to: 2 ** 20 };
const OPTIONS = {
  shape: {
    kind: "text",
    placeholder: "NAME",
    description: `the model whose shape to use: ${SHAPE_NAMES.join(", ")}`,
    fallback: "llama3-1b",
  },
  types: {
    kind: "text",
    placeholder: "LIST",
    description: "block types, with commas",
    fallback: "Q4_K_M,Q4_0,Q8_0,Q6_K,F16",
  },
  runs: {
    kind: "count",
    placeholder: "COUNT",
    range: MANY,
    description: "measurements of each engine",
    fallback: KEPT_RUNS,
  },
  prompt: { kind: "count", placeholder: "TOKENS", range: SIZE, description: "tokens to prefill", fallback: 512 },
  tokens: { kind: "count", placeholder: "TOKENS", range: SIZE, description: "tokens to decode", fallback: 64 },
  depth: {
    kind: "count",
    placeholder: "TOKENS",
    range: { from: 0, to: 2 ** 20 },
    description: "for writing late in a context, 0 for none",
    fallback: 4096,
  },
  "depth-types": {
    kind: "text",
    placeholder: "LIST",
    description: "types measured at that depth",
    fallback: `${DEFAULT_DEPTH_TYPES.join(" and ")}, if among the types`,
  },
  threads: { kind: "count", placeholder: "COUNT", range: MANY, description: "our threads", fallback: "our own choice" },
  "peer-threads": {
    kind: "text",
    placeholder: "LIST",
    description: "the peer's; the best of them counts",
    fallback: "1, 2 and as many as there are",
  },
  "llama-bench": { kind: "text", placeholder: "FILE", description: "llama.cpp's own benchmark, to stand beside" },
  quick: { kind: "flag", description: "one run, no depth, one of the peer's two ways to attend" },
  keep: { kind: "flag", description: "keep the synthetic files" },
  check: { kind: "flag", description: "fail where a target is missed or not measured" },
  help: { kind: "flag", description: "show this text" },
} as const satisfies OptionTable;

export interface Settings {
  readonly shape: string;
  readonly types: readonly MixName[];
  readonly depthTypes: readonly MixName[];
  readonly runs: number;
  readonly prompt: number;
  readonly tokens: number;
  readonly depth: number;
  readonly threads: number | undefined;
  readonly peerThreads: readonly number[];
  readonly llamaBench: string | undefined;
  readonly triesAttention: boolean;
  readonly keep: boolean;
  readonly check: boolean;
  readonly help: boolean;
  readonly resultFolder: string;
}

export function describeOptions(): string {
  const rows = Object.entries(OPTIONS as OptionTable).map(([name, { description, fallback }]) => [
    `--${name}`,
    description,
    fallback === undefined ? "" : `default: ${fallback}`,
  ]);
  return `usage: npm run bench:peers -- [options]\n\n${formatTable(rows)}`;
}

export function parseSettings(args: readonly string[]): Settings {
  // Some package managers pass on the "--" that was meant for them.
  const { values, positionals } = parseOptions(NAME, OPTIONS, args[0] === "--" ? args.slice(1) : args);
  if (positionals.length > 0) {
    throw new OptionError(
      "OPTION_UNKNOWN",
      `[${NAME}] expected options alone, found "${positionals[0]}"; --help lists them all`,
      { details: { argument: positionals[0] } },
    );
  }
  const types = namesOf("types", MIX_NAMES, values.types ?? OPTIONS.types.fallback);
  const runs = values.runs ?? (values.quick ? 1 : OPTIONS.runs.fallback);
  return {
    shape: chooseName(NAME, "shape", SHAPE_NAMES, values.shape ?? OPTIONS.shape.fallback),
    types,
    depthTypes:
      values["depth-types"] === undefined
        ? DEFAULT_DEPTH_TYPES.filter((type) => types.includes(type))
        : namesOf("depth-types", types, values["depth-types"]),
    runs,
    prompt: values.prompt ?? OPTIONS.prompt.fallback,
    tokens: values.tokens ?? OPTIONS.tokens.fallback,
    depth: values.depth ?? (values.quick ? 0 : OPTIONS.depth.fallback),
    threads: values.threads,
    peerThreads: peerThreadsOf(values),
    llamaBench: programOf(values["llama-bench"]),
    triesAttention: !values.quick,
    keep: values.keep,
    check: values.check,
    help: values.help,
    resultFolder: values.quick || runs < KEPT_RUNS ? CACHE_FOLDER : RESULT_FOLDER,
  };
}

function wordsOf(option: string, text: string): string[] {
  const words = text
    .split(",")
    .map((word) => word.trim())
    .filter((word) => word !== "");
  if (words.length === 0) throw wrongValue(NAME, option, "at least one, with commas between", `"${text}"`);
  return words;
}

function namesOf<Choice extends string>(option: string, choices: readonly Choice[], text: string): Choice[] {
  return [...new Set(wordsOf(option, text).map((word) => chooseName(NAME, option, choices, word)))];
}

function peerThreadsOf(values: OptionValues<typeof OPTIONS>): number[] {
  const text = values["peer-threads"];
  const cores = availableParallelism();
  if (text === undefined) return [...new Set([1, 2, cores])].filter((count) => count <= cores);
  const counts = wordsOf("peer-threads", text).map((word) => {
    const count = parseNumber(word, MANY, true);
    if (typeof count !== "number") throw wrongValue(NAME, "peer-threads", count.expected, `"${word}"`);
    return count;
  });
  return [...new Set(counts)];
}

/** Checked now rather than after the first half hour. */
function programOf(path: string | undefined): string | undefined {
  if (path === undefined) return undefined;
  try {
    accessSync(path, constants.X_OK);
    return path;
  } catch {
    throw wrongValue(NAME, "llama-bench", "a program that can be run", `"${path}"`);
  }
}
