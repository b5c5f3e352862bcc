// `npm run demo`: from a fresh clone to a story on stdout. Options after `--` are passed to `rocmforge generate` and
// replace the ones below.

import { existsSync } from "node:fs";
import { join } from "node:path";
import { bootstrap, COMMAND_LINE, ROOT } from "./bootstrap.mjs";
import { main, runProgram, say, ScriptError } from "./tool.mjs";

const DEFAULTS = [
  { names: ["-m", "--model"], value: join(ROOT, "models", "fable-10m-Q4_K_M.gguf") },
  { names: ["-p", "--prompt", "-f", "--file"], value: "Once upon a time there was a king who had three daughters." },
  { names: ["-n", "--tokens"], value: "200" },
  // A fixed seed, so that a second run writes the same story.
  { names: ["--seed"], value: "7" },
];

function isGiven(args, names) {
  return names.some((name) => args.some((argument) => argument === name || argument.startsWith(`${name}=`)));
}

await main(async (args) => {
  await bootstrap();
  if (!existsSync(COMMAND_LINE))
    throw new ScriptError(
      "the build has no dist/cli/main.js, so there is no command to run: is src/cli/main.ts there?",
    );
  const defaults = DEFAULTS.filter(({ names }) => !isGiven(args, names)).flatMap(({ names, value }) => [
    names[0],
    value,
  ]);
  say("writing a story with the embedded model (rocmforge generate)");
  const { exitCode } = await runProgram(process.execPath, [COMMAND_LINE, "generate", ...defaults, ...args], {
    show: true,
  });
  return exitCode;
});
