// `rocmforge tokenize`: the tokens of a text, as ids and as text. Needs a vocabulary, but no tensors.

import { loadTokenizer, type Tokenizer } from "../../index.js";
import { defineCommand } from "../command.js";
import { countOf, formatBytes, printable } from "../format.js";
import { modelFile } from "../model-file.js";
import { GENERAL_OPTIONS, MODEL_OPTION } from "../model-options.js";
import { type OptionTable, type OptionValues, wrongValue } from "../option-table.js";
import type { Output } from "../output.js";
import { Progress } from "../progress.js";
import { readText } from "../text-input.js";

const NAME = "tokenize";
/** Tokens printed at once: a long text has more tokens than one string can hold. */
const CHUNK_TOKENS = 8192;
/** A text of this length may take a second or more, and encoding is one call that cannot report progress. */
const LONG_TEXT_CHARACTERS = 2_000_000;

const OPTIONS = {
  prompt: { kind: "text", short: "p", placeholder: "TEXT", description: "the text itself" },
  file: {
    kind: "path",
    short: "f",
    placeholder: "FILE",
    description: "read the text from a file, - for stdin, without trimming it",
  },
  "no-special": { kind: "flag", description: "add no BOS or EOS" },
  "no-parse-special": { kind: "flag", description: "treat the text of special tokens as text" },
  json: { kind: "flag", description: "print one JSON object: tokens, count, pieces" },
  ...MODEL_OPTION,
  ...GENERAL_OPTIONS,
} as const satisfies OptionTable;

/** The command `tokenize`. */
export const tokenize = defineCommand({
  name: NAME,
  summary: "splits a text into tokens",
  about: ["Bytes of an incomplete character are shown as <0x…>."],
  positionals: [],
  options: OPTIONS,
  examples: [
    { what: "ids and texts of the tokens", line: 'rocmforge tokenize -p "Once upon a time"' },
    {
      what: "a file, as JSON, without BOS and EOS",
      line: "rocmforge tokenize -m model.gguf --file text.txt --no-special --json",
    },
  ],
  async run(values, _positionals, { output }) {
    const text = await textOf(values);
    const tokenizer = await loadTokenizer(await modelFile(values));
    using progress = new Progress("tokenizing");
    if (text.length > LONG_TEXT_CHARACTERS) progress.announce(`tokenizing ${formatBytes(Buffer.byteLength(text))}`);
    const tokens = tokenizer.encode(text, {
      addSpecial: !values["no-special"],
      parseSpecial: !values["no-parse-special"],
    });
    progress.end();
    if (values.json) await writeJson(tokenizer, tokens, output);
    else await writeText(tokenizer, tokens, output);
    return 0;
  },
});

async function textOf({ prompt, file }: OptionValues<typeof OPTIONS>): Promise<string> {
  if (prompt !== undefined && file !== undefined) throw wrongValue(NAME, "file", "either --prompt or --file", "both");
  if (prompt !== undefined) return prompt;
  if (file === undefined)
    throw wrongValue(NAME, "file", "a text: --file FILE, or -f - for stdin, or -p TEXT", "nothing");
  return await readText(file);
}

async function writeText(tokenizer: Tokenizer, tokens: Int32Array, output: Output): Promise<void> {
  const width = String(tokenizer.vocabularySize - 1).length;
  for (const chunk of chunksOf(tokens)) {
    const lines = Array.from(chunk, (id) => `${String(id).padStart(width)}  "${printable(pieceOf(tokenizer, id))}"\n`);
    await output.write(lines.join(""));
  }
  await output.write(`${countOf(tokens.length, "token")}\n`);
}

async function writeJson(tokenizer: Tokenizer, tokens: Int32Array, output: Output): Promise<void> {
  const writeList = async (show: (id: number) => string): Promise<void> => {
    let separator = "";
    for (const chunk of chunksOf(tokens)) {
      await output.write(separator + Array.from(chunk, show).join(","));
      separator = ",";
    }
  };
  await output.write('{\n  "tokens": [');
  await writeList(String);
  await output.write(`],\n  "count": ${tokens.length},\n  "pieces": [`);
  await writeList((id) => JSON.stringify(pieceOf(tokenizer, id)));
  await output.write("]\n}\n");
}

function* chunksOf(tokens: Int32Array): Iterable<Int32Array> {
  for (let start = 0; start < tokens.length; start += CHUNK_TOKENS) yield tokens.subarray(start, start + CHUNK_TOKENS);
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function pieceOf(tokenizer: Tokenizer, id: number): string {
  const bytes = tokenizer.tokenBytes(id, true);
  try {
    return utf8.decode(bytes);
  } catch {
    return Array.from(bytes, (byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`).join("");
  }
}
