// Starts the driver of the GPU that a command is going to use, or may use, before anything else is loaded. It guesses
// from the raw arguments: mistakes in them are reported later, and a driver that turns out not to be needed only cost a
// thread some time.

import module from "node:module";

/** The compile cache of Node 22.1 and later: compiled code of an earlier start. */
interface NewerModule {
  readonly enableCompileCache?: () => unknown;
}

/** Commands that open a backend, and do so first. */
const COMMANDS = ["generate", "bench", "perplexity", "serve", "run"];
const HELP = ["--help", "-h"];
const OPTION = "--backend";
/** Backends without a driver. */
const PLAIN_BACKENDS = ["cpu", "reference"];

/** Starts the GPU driver that the arguments imply, if any, without waiting for it. */
export async function startDriverFor(args: readonly string[]): Promise<void> {
  (module as NewerModule).enableCompileCache?.();
  if (!COMMANDS.includes(args[0]) || args.some((argument) => HELP.includes(argument))) return;
  const backend = backendOf(args);
  if (PLAIN_BACKENDS.includes(backend)) return;
  const { startDriver } = await import("../backends/registry.js");
  await startDriver(backend);
}

/** The backend that the arguments name; the last one counts. */
function backendOf(args: readonly string[]): string {
  const last = args.findLastIndex((argument) => argument === OPTION || argument.startsWith(`${OPTION}=`));
  if (last === -1) return "auto";
  return args[last] === OPTION ? (args[last + 1] ?? "") : args[last].slice(OPTION.length + 1);
}
