// Every command, in the order in which the help lists them. To add one, add a file in commands/ and a line here. A
// command's file is loaded only when the command runs, so that no command waits for the code of another.

import type { Command } from "./command.js";

const LOADERS: Readonly<Record<string, () => Promise<Command>>> = {
  run: async () => (await import("./commands/run.js")).runModel,
  generate: async () => (await import("./commands/generate.js")).generate,
  chat: async () => (await import("./commands/chat.js")).chat,
  serve: async () => (await import("./commands/serve.js")).serve,
  launch: async () => (await import("./commands/launch.js")).launchClient,
  pull: async () => (await import("./commands/pull.js")).pull,
  list: async () => (await import("./commands/list.js")).list,
  rm: async () => (await import("./commands/rm.js")).rm,
  inspect: async () => (await import("./commands/inspect.js")).inspect,
  tokenize: async () => (await import("./commands/tokenize.js")).tokenize,
  perplexity: async () => (await import("./commands/perplexity.js")).perplexity,
  plan: async () => (await import("./commands/plan.js")).plan,
  bench: async () => (await import("./commands/bench.js")).bench,
  tune: async () => (await import("./commands/tune.js")).tune,
  synth: async () => (await import("./commands/synth.js")).synth,
  devices: async () => (await import("./commands/devices.js")).devices,
  doctor: async () => (await import("./commands/doctor.js")).doctor,
  verify: async () => (await import("./commands/verify.js")).verify,
  completion: async () => (await import("./commands/completion.js")).completion,
};

/** The names of all commands, in the order of the help text. */
export const COMMAND_NAMES: readonly string[] = Object.keys(LOADERS);

/** Loads a command; undefined if there is none of this name. */
export async function loadCommand(name: string): Promise<Command | undefined> {
  return Object.hasOwn(LOADERS, name) ? await LOADERS[name]() : undefined;
}

/** Loads all commands, for the general help. */
export async function loadCommands(): Promise<readonly Command[]> {
  return await Promise.all(Object.values(LOADERS).map((load) => load()));
}
