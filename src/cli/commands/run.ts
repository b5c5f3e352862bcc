// `rocmforge run`: from a model's name to a chat. Downloads the model if needed, serves it on localhost and opens the
// chat page while the model is loaded, or chats in the terminal.

import { isAbsolute } from "node:path";
import { isModelName } from "../../hub/model-scheme.js";
import { chatWithModel } from "../chat/chat-with-model.js";
import { defineCommand } from "../command.js";
import { countOf, printable } from "../format.js";
import { DRAFT_OPTIONS } from "../draft-options.js";
import { GENERAL_OPTIONS, MODEL_OPTIONS } from "../model-options.js";
import { openPage, pageOpener } from "../open-page.js";
import { type OptionTable, type OptionValues, parseOptions, wrongValue } from "../option-table.js";
import { freePort, LOCALHOST } from "../serve/free-port.js";
import { DEFAULT_SERVE_PORT, SERVE_OPTIONS, type ServeValues } from "../serve/serve-options.js";
import { serveUntilStopped } from "../serve/serve-until-stopped.js";

const NAME = "run";
/** An answer that is being generated for the page is not worth a longer wait. */
const DRAIN_SECONDS = 3;

const { model: _model, ...DEVICE_OPTIONS } = MODEL_OPTIONS;
const {
  port,
  ollama,
  "ollama-port": ollamaPort,
  "api-key-file": apiKeyFile,
  "log-level": logLevel,
  "log-format": logFormat,
} = SERVE_OPTIONS;

const OPTIONS = {
  terminal: { kind: "flag", description: "chat in this terminal instead of the browser, as `rocmforge chat` does" },
  "no-open": { kind: "flag", description: "print the page's address and open no browser" },
  port: { ...port, fallback: `${DEFAULT_SERVE_PORT}, or the next free one` },
  ollama,
  "ollama-port": ollamaPort,
  "api-key-file": apiKeyFile,
  "log-level": { ...logLevel, fallback: "warn" },
  "log-format": logFormat,
  ...DEVICE_OPTIONS,
  ...DRAFT_OPTIONS,
  ...GENERAL_OPTIONS,
} as const satisfies OptionTable;

type Values = OptionValues<typeof OPTIONS>;

/** The command `run`. */
export const runModel = defineCommand({
  name: NAME,
  summary: "downloads a model if needed, serves it on localhost and opens the chat page",
  about: [
    "MODEL is a GGUF file, hf:user/repo[:quant], https://… or ollama:name:tag; without one it is the embedded model. A",
    "download is preceded by what the model is and whether it fits, and resumes after an interruption. The page opens while",
    "the model is being loaded, and other programs can use the server as they use `rocmforge serve`, which has more options.",
    "Ctrl-C stops it.",
  ],
  positionals: ["MODEL"],
  options: OPTIONS,
  examples: [
    { what: "a model of the hub in the browser", line: "rocmforge run hf:user/repo:Q4_K_M" },
    { what: "the embedded model", line: "rocmforge run" },
    { what: "a chat in the terminal", line: "rocmforge run model.gguf --terminal" },
  ],
  async run(values, [model], { output }) {
    if (model === "") throw wrongValue(NAME, "model", "a file or the name of a model", '""');
    if (values.terminal) {
      refuseServerOptions(values);
      return await chatWithModel({ values: { ...values, model }, sampling: {} }, output);
    }
    return await serveUntilStopped({
      command: NAME,
      values: { ...serveValues(values), model: model === undefined ? [] : [literalModel(model)] },
      ...(values.port === undefined ? { choosePort } : {}),
      onListening: ({ url, ollamaUrl }, { needsKey }) => {
        const opens = !values["no-open"] && pageOpener() !== undefined;
        if (opens) void openPage(`${url}/`).then((opened) => (opened ? undefined : sayNotOpened(url)));
        return listeningText({ url, ollamaUrl, opens, needsKey });
      },
      onReady: ({ models }) => {
        const [{ name, contextTokens }] = models();
        const context = contextTokens === undefined ? "" : `, a context of ${countOf(contextTokens, "token")}`;
        return `${printable(name)} is ready${context}; Ctrl-C stops it\n`;
      },
    });
  },
});

/** A chat in the terminal starts no server, so that options of one would have no effect. */
function refuseServerOptions(values: Values): void {
  const names = ["no-open", "port", "ollama", "ollama-port", "api-key-file", "log-level", "log-format"] as const;
  const given = names.find((name) => values[name] !== undefined && values[name] !== false);
  if (given !== undefined) throw wrongValue(NAME, "terminal", "no options of a server", `--${given}`);
}

/** MODEL is no NAME=FILE, as -m of `serve` may be: a file's own name may contain a `=`. */
function literalModel(model: string): string {
  const isRelative = !isModelName(model) && !isAbsolute(model) && !model.startsWith("~");
  return isRelative && model.includes("=") ? `./${model}` : model;
}

/** The default port, or the next free one. */
async function choosePort(): Promise<number> {
  const chosen = await freePort(DEFAULT_SERVE_PORT, LOCALHOST);
  if (chosen !== DEFAULT_SERVE_PORT)
    process.stderr.write(
      `rocmforge: another program listens on port ${DEFAULT_SERVE_PORT}; using ${chosen} (--port chooses one)\n`,
    );
  return chosen;
}

/** The values of `serve` that this command implies. */
function serveValues(values: Values): Omit<ServeValues, "model"> {
  return {
    ...parseOptions(NAME, SERVE_OPTIONS, []).values,
    ...values,
    "drain-seconds": DRAIN_SECONDS,
    "log-level": values["log-level"] ?? "warn",
  };
}

interface Listening {
  readonly url: string;
  readonly ollamaUrl: string | undefined;
  readonly opens: boolean;
  readonly needsKey: boolean;
}

/** On lines of its own, so that the address is found among other output. */
function listeningText({ url, ollamaUrl, opens, needsKey }: Listening): string {
  return [
    "",
    `  chat in a browser: ${url}/`,
    ...(opens ? ["  (opening it now; the page shows the model while it is being loaded)"] : []),
    ...(needsKey ? ["  the page asks for an API key"] : []),
    ...(ollamaUrl === undefined ? [] : [`  clients of Ollama: ${ollamaUrl}`]),
    "",
    "",
  ].join("\n");
}

function sayNotOpened(url: string): void {
  process.stderr.write(`rocmforge: no browser could be opened; open ${url}/ in one\n`);
}
