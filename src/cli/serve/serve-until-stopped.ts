// Serves models from a command until a signal stops it: downloads what is missing, listens, loads, drains. Everything
// but the greeting goes to the log on stderr, which never blocks.

import { isatty } from "node:tty";
import {
  flushStandardLogs,
  setErrorLogFormat,
  standardErrorLog,
  standardOutputLog,
} from "../../log/standard-streams.js";
import { OptionError } from "../../errors.js";
import { isLogFormat, LOG_FORMATS } from "../../log/log-format.js";
import { type RunningServer, serve, type ServerAddresses } from "../../server/index.js";
import { formatDuration, printable } from "../format.js";
import { Interrupt } from "../interrupt.js";
import { EMBEDDED_MODEL } from "../model-options.js";
import { wrongValue } from "../option-table.js";
import { Progress } from "../progress.js";
import { API_KEYS_VARIABLE, readApiKeys } from "./api-keys.js";
import { modelList } from "./model-list.js";
import { isFreePort, LOCALHOST } from "./free-port.js";
import {
  checkLogLevel,
  DEFAULT_DRAIN_SECONDS,
  DEFAULT_SERVE_PORT,
  ollamaPortOf,
  serveOptions,
  type ServeValues,
} from "./serve-options.js";
import { servedFiles } from "./served-files.js";

const MS_PER_SECOND = 1000;
/** How long the process waits for the last log lines to be read after the server has stopped. */
const LAST_LINES_MS = 500;
const MAX_PORT_ATTEMPTS = 5;

/** What a greeting may mention besides the server's addresses and models. */
export interface ServedAccess {
  readonly needsKey: boolean;
}

/** A server that a command runs. */
export interface ServeRun {
  /** The command's name, for messages. */
  readonly command: string;
  readonly values: ServeValues;
  /** Chooses a port right before it is listened on, after downloads; absent: that of the values. */
  readonly choosePort?: () => Promise<number>;
  /** Called as soon as the server listens, while its first model is being loaded; the text is printed. */
  readonly onListening?: (addresses: ServerAddresses, access: ServedAccess) => string;
  /** The text that is printed once the first model is ready. */
  readonly onReady: (server: RunningServer, access: ServedAccess) => string;
}

/** Serves until a signal comes; returns the exit status. */
export async function serveUntilStopped(run: ServeRun): Promise<number> {
  try {
    return await serveModels(run);
  } finally {
    await flushStandardLogs(LAST_LINES_MS);
    // An unread pipe must not keep the process alive after the server has stopped.
    setTimeout(() => process.exit(), LAST_LINES_MS).unref();
  }
}

async function serveModels({ command, values, choosePort, onListening, onReady }: ServeRun): Promise<number> {
  chooseLogFormat(command, values["log-format"]);
  checkLogLevel(command, values["log-level"]);
  const log = standardErrorLog();
  const say = (text: string): void => log.write(`rocmforge: ${text}\n`);
  redirectWarnings(say);
  // Options that cannot be used are refused before anything is downloaded.
  const apiKeys = await readApiKeys(command, values["api-key-file"], process.env);
  if (choosePort === undefined) await refuseTakenPorts(command, values);
  const models = modelList(command, await servedFiles(values.model, values), EMBEDDED_MODEL);
  const access = { needsKey: apiKeys.length > 0 };
  const print = (text: string): void => standardOutputLog().write(text);
  using interrupt = new Interrupt({ ignoresEchoes: true });
  using progress = new Progress(`loading ${printable(models[0].name)}`, {
    isTTY: isatty(process.stderr.fd),
    write: (text) => log.write(text),
  });
  const start = async (): Promise<RunningServer> =>
    await serve({
      ...serveOptions({ ...values, port: await (choosePort?.() ?? values.port) }, progress),
      models,
      apiKeys,
      signal: interrupt.signal,
      ...(onListening === undefined ? {} : { onListening: (addresses) => print(onListening(addresses, access)) }),
    });
  const starting = choosePort === undefined ? start() : againIfTaken(start);
  await using server = await unlessInterrupted(starting, interrupt.signal);
  if (server !== undefined) await Promise.race([server.ready, aborted(interrupt.signal)]);
  progress.end();
  if (server === undefined) {
    say("stopped before the model was loaded");
    return 0;
  }
  if (server.isOpenToAll)
    say(`everyone who can reach ${server.url} may use it; --api-key-file or ${API_KEYS_VARIABLE} requires a key`);
  // If the server was interrupted before it was ready, it prints no greeting.
  if (!interrupt.signal.aborted) print(onReady(server, access));
  await aborted(interrupt.signal);
  const drainMs = (values["drain-seconds"] ?? DEFAULT_DRAIN_SECONDS) * MS_PER_SECOND;
  say(`stopping; in-flight requests have ${formatDuration(drainMs)} to finish`);
  await server.stop(drainMs);
  return 0;
}

function chooseLogFormat(command: string, format: string | undefined): void {
  if (format === undefined) return;
  if (!isLogFormat(format)) throw wrongValue(command, "log-format", LOG_FORMATS.join(", "), `"${format}"`);
  setErrorLogFormat(format);
}

/** Before a download that may take an hour; a port can still be taken afterwards, which the server reports. */
async function refuseTakenPorts(command: string, values: ServeValues): Promise<void> {
  const ports = [
    { option: "port", port: values.port ?? DEFAULT_SERVE_PORT, host: values.host ?? LOCALHOST },
    { option: "ollama-port", port: ollamaPortOf(values) ?? 0, host: LOCALHOST },
  ];
  for (const { option, port, host } of ports)
    if (!(await isFreePort(port, host)))
      throw wrongValue(command, option, "one that is free", `${port}, which another program listens on`);
}

/** Starts a server whose port is chosen anew if another program took it in between. */
async function againIfTaken(start: () => Promise<RunningServer>): Promise<RunningServer> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await start();
    } catch (error) {
      const isTaken = error instanceof OptionError && error.details["option"] === "port";
      if (!isTaken || attempt === MAX_PORT_ATTEMPTS) throw error;
    }
  }
}

/** Redirects Node's warnings, which it would write to standard error in a way that blocks. */
function redirectWarnings(say: (text: string) => void): void {
  if (process.listenerCount("warning") === 0) return;
  process.removeAllListeners("warning").on("warning", ({ name, message }) => say(printable(`${name}: ${message}`)));
}

/** The result, or undefined if the signal came first. */
async function unlessInterrupted(
  starting: Promise<RunningServer>,
  signal: AbortSignal,
): Promise<RunningServer | undefined> {
  try {
    return await starting;
  } catch (error) {
    if (signal.aborted && error === signal.reason) return undefined;
    throw error;
  }
}

async function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
}
