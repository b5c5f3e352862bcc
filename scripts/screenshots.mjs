// `npm run screenshots`: makes the pictures of the chat page in docs/images with Debian's Chromium. They show a scripted
// model, so that they differ only if the page does.

import { existsSync, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { bootstrap, ROOT } from "./bootstrap.mjs";
import { main, runProgram, say, ScriptError, step } from "./tool.mjs";

const BROWSER = "/usr/bin/chromium";

/** A palette makes a picture a third as large, and no eye sees it. */
async function shrink(paths) {
  const { exitCode } = await runProgram("pngquant", ["--quality=80-98", "--ext=.png", "--force", ...paths]).catch(
    () => ({}),
  );
  if (exitCode !== 0) say("warning: the pictures stay large: on Debian, apt-get install pngquant");
  for (const path of paths) {
    const packed = await runProgram("zopflipng", ["-y", "--lossy_transparent", path, path]).catch(() => ({}));
    if (packed.exitCode !== 0) return say("warning: the pictures stay a tenth too large: apt-get install zopfli");
  }
}

await main(async ([folder = join(ROOT, "docs", "images")]) => {
  if (!existsSync(BROWSER)) throw new ScriptError("there is no browser: on Debian, apt-get install chromium");
  await bootstrap();
  const { build } = await import("esbuild");
  const bundle = join(ROOT, ".cache", "screenshots.mjs");
  mkdirSync(join(ROOT, ".cache"), { recursive: true });
  await build({
    entryPoints: [join(ROOT, "test", "page", "screenshots.ts")],
    outfile: bundle,
    bundle: true,
    format: "esm",
    platform: "node",
    target: "node20",
    packages: "external",
    logLevel: "warning",
  });
  const { run } = await import(pathToFileURL(bundle).href);
  await step(`making pictures in ${folder}`, () => run(folder));
  await shrink(
    readdirSync(folder)
      .filter((name) => name.endsWith(".png"))
      .map((name) => join(folder, name)),
  );
});
