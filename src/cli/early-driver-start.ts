// Starts the driver of the GPU that a command line is going to use, or may use, before anything else is loaded. A guess by
// the arguments as they are: what is wrong with them is found later, and a driver that nobody wanted has cost a thread some time.

import module from "node:module";

/** Node has it from 22.1 on: compiled code of an earlier start. */
interface NewerModule {
  readonly enableCompileCache?: () => unknown;
}

/** Commands that open a backend, and do it first of all. */
const COMMANDS = ["generate", "bench", "perplexity", "serve"];
const HELP = ["--help", "-h"];
const OPTION = "--backend";
/** They have no driver. */
const PLAIN_BACKENDS = ["cpu", "reference"];

export async function startDriverAhead(args: readonly string[]): Promise<void> {
  (module as NewerModule).enableCompileCache?.();
  if (!COMMANDS.includes(args[0]) || args.some((argument) => HELP.includes(argument))) return;
  const backend = backendOf(args);
  if (PLAIN_BACKENDS.includes(backend)) return;
  const { startDriver } = await import("../backends/registry.js");
  await startDriver(backend);
}

/** The last one given counts. */
function backendOf(args: readonly string[]): string {
  const last = args.findLastIndex((argument) => argument === OPTION || argument.startsWith(`${OPTION}=`));
  if (last === -1) return "auto";
  return args[last] === OPTION ? (args[last + 1] ?? "") : args[last].slice(OPTION.length + 1);
}
