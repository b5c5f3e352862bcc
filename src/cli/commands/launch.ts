// `rocmforge launch`: starts a coding agent that is installed, set up for a running server or for one started here.

import { isatty } from "node:tty";
import { GgufFile } from "../../gguf/file.js";
import { standardErrorLog } from "../../log/standard-streams.js";
import { type RunningServer, serve } from "../../server/index.js";
import { defineCommand } from "../command.js";
import { countOf, printable } from "../format.js";
import { Interrupt } from "../interrupt.js";
import { runChild } from "../launch/child-program.js";
import { changedEnvironment } from "../launch/client-environment.js";
import { CLIENTS, type ClientTarget, type LaunchableClient } from "../launch/client-table.js";
import { findProgram } from "../launch/find-program.js";
import { settingsText } from "../launch/settings-text.js";
import { servedModel } from "../launch/served-model.js";
import { DRAFT_OPTIONS } from "../draft-options.js";
import { GENERAL_OPTIONS, loadOptions, MODEL_OPTIONS } from "../model-options.js";
import { type OptionTable, type OptionValues, wrongValue } from "../option-table.js";
import { OptionError } from "../../errors.js";
import { didYouMean } from "../../nearest.js";
import { Progress } from "../progress.js";
import { readApiKeys } from "../serve/api-keys.js";
import { modelList } from "../serve/model-list.js";
import { servedFiles } from "../serve/served-files.js";

const NAME = "launch";
const DEFAULT_URL = "http://127.0.0.1:8080";
/** As shells report a program that is not installed. */
const NOT_FOUND_STATUS = 127;
/** What a coding agent needs for its instructions, its tools and some work. */
const AGENT_CONTEXT_TOKENS = 32_768;
/** With less, most agents' first prompt does not fit. */
const FEWEST_CONTEXT_TOKENS = 16_384;
const NAMES = Object.keys(CLIENTS);

const OPTIONS = {
  url: {
    kind: "text",
    placeholder: "URL",
    description: "address of a running server",
    fallback: DEFAULT_URL,
  },
  name: {
    kind: "text",
    placeholder: "MODEL",
    description: "name of the served model to use",
    fallback: "the server's first one",
  },
  "api-key-file": {
    kind: "path",
    placeholder: "FILE",
    description: "API keys of the running server, one per line; the first is used",
  },
  print: { kind: "flag", description: "show what would be set and started, and start nothing" },
  ...MODEL_OPTIONS,
  ...DRAFT_OPTIONS,
  model: {
    ...MODEL_OPTIONS.model,
    description: "start a server with this GGUF model (or NAME=FILE), for as long as the client runs",
    fallback: "none: a running server is used",
  },
  ctx: {
    ...MODEL_OPTIONS.ctx,
    fallback: `the model's own, at most ${AGENT_CONTEXT_TOKENS}`,
  },
  ...GENERAL_OPTIONS,
} as const satisfies OptionTable;

type Values = OptionValues<typeof OPTIONS>;

/** The command `launch`. */
export const launchClient = defineCommand({
  name: NAME,
  summary: "starts a coding agent on a local model: claude, codex or opencode",
  about: [
    "Sets the environment of an installed client for a running server, or for one that is started with -m, and starts it in",
    "this terminal. The user's own configuration files are not changed. Arguments after -- are the client's.",
  ],
  positionals: ["CLIENT"],
  choices: { CLIENT: NAMES },
  rest: "ARGUMENTS",
  options: OPTIONS,
  examples: [
    { what: "Claude Code on the server that runs here", line: "rocmforge launch claude" },
    { what: "Codex with a server of its own", line: "rocmforge launch codex -m model.gguf --ctx 65536" },
    { what: "one answer of Claude Code", line: 'rocmforge launch claude -- -p "What does this project do?"' },
    { what: "what would be set", line: "rocmforge launch opencode --print" },
  ],
  async run(values, [name], { output }, rest) {
    const client = clientOf(name);
    if (values.print) {
      const target = await runningTarget(values);
      const settings = client.settings(target);
      await output.write(settingsText(client, { ...settings, args: [...settings.args, ...rest] }, target.apiKey));
      return 0;
    }
    const path = await findProgram(client.program, process.env["PATH"]);
    if (path === undefined) return notInstalled(client);
    if (values.model === undefined) return await start(path, client, await runningTarget(values), rest);
    await using server = await startServer(values, values.model);
    return server === undefined ? 0 : await start(path, client, ownTarget(server), rest);
  },
});

function clientOf(name: string | undefined): LaunchableClient {
  if (name !== undefined && Object.hasOwn(CLIENTS, name)) return CLIENTS[name];
  const found = name === undefined ? "nothing" : `"${name}"`;
  const guess = name === undefined ? "" : didYouMean(name, NAMES);
  throw new OptionError(
    "OPTION_VALUE",
    `[${NAME}] expected a client (${NAMES.join(", ")}), found ${found}${guess === "" ? "" : `;${guess}`}`,
    { details: { option: "client", found } },
  );
}

function notInstalled({ title, program, install }: LaunchableClient): number {
  process.stderr.write(
    `rocmforge: ${title} is not installed: no folder of the PATH has the program "${program}"; install it with: ${install}\n`,
  );
  return NOT_FOUND_STATUS;
}

async function runningTarget(values: Values): Promise<ClientTarget> {
  if (values.model !== undefined)
    throw wrongValue(NAME, "print", "a running server", "--model, whose server has no address before it is started");
  const url = addressOf(values.url ?? DEFAULT_URL);
  const [apiKey] = await readApiKeys(NAME, values["api-key-file"], process.env);
  const { name: model, contextTokens } = await servedModel(url, apiKey, values.name);
  return { url, model, contextTokens, apiKey };
}

/** The address without a path: clients are given the paths that they need. */
function addressOf(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol) || !/^\/(?:v1\/?)?$/.test(url.pathname) || url.search !== "")
    throw wrongValue(NAME, "url", `an address such as ${DEFAULT_URL}`, `"${text}"`);
  return url.origin;
}

/** A server in this process, for this client alone; undefined if the start was interrupted. */
async function startServer(values: Values, model: string): Promise<RunningServer | undefined> {
  const models = modelList(NAME, await servedFiles([model], values), model);
  using interrupt = new Interrupt();
  using progress = new Progress(`loading ${printable(models[0].name)}`, {
    isTTY: isatty(process.stderr.fd),
    write: (text) => standardErrorLog().write(text),
  });
  const ctx = values.ctx ?? (await agentContext(models[0].path));
  try {
    const server = await serve({
      models,
      model: loadOptions({ ...values, ctx }, progress),
      port: 0,
      signal: interrupt.signal,
    });
    await server.ready;
    return server;
  } catch (error) {
    if (interrupt.signal.aborted && error === interrupt.signal.reason) return undefined;
    throw error;
  } finally {
    progress.end();
  }
}

/** The model's own context length, up to what agents need; undefined if its file does not state one. */
async function agentContext(path: string): Promise<number | undefined> {
  using file = await GgufFile.open(path, { mapping: "off" });
  const own = file.metadata.get(`${file.metadata.string("general.architecture") ?? ""}.context_length`);
  return typeof own === "number" ? Math.min(own, AGENT_CONTEXT_TOKENS) : undefined;
}

function ownTarget(server: RunningServer): ClientTarget {
  const [{ name, contextTokens }] = server.models();
  return { url: server.url, model: name, contextTokens, apiKey: undefined };
}

async function start(
  path: string,
  client: LaunchableClient,
  target: ClientTarget,
  rest: readonly string[],
): Promise<number> {
  const { contextTokens = Infinity } = target;
  if (contextTokens < FEWEST_CONTEXT_TOKENS) {
    process.stderr.write(
      `rocmforge: the context length is ${countOf(contextTokens, "token")}; ${client.title} may need ${countOf(AGENT_CONTEXT_TOKENS, "token")} (--ctx)\n`,
    );
  }
  const { environment, args } = client.settings(target);
  return await runChild({
    path,
    args: [...args, ...rest],
    environment: changedEnvironment(process.env, environment, target.url),
  });
}
