// `npm run docs`: writes the generated pages (docs/errors.md from ERROR_CODES, docs/api/ from the types, docs/images/plots/
// from the figures of benchmarks), and builds the site from all documents. With --references, only the generated pages:
// run it after changing an error code, a doc comment of a public name or a measured figure; test/project compares the
// pages with their sources. --serve shows the site while you write, --base PATH builds it for a path of a host.

import { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { apiReference } from "./api-reference.mjs";
import { benchmarkPlots } from "./benchmark-plots.mjs";
import { bootstrap, ROOT } from "./bootstrap.mjs";
import { buildSite, serveSite } from "./build-site.mjs";
import { main, say, ScriptError } from "./tool.mjs";

const HEAD = `# Error codes

Every error that ROCmForge throws on purpose is a \`RocmForgeError\` with a \`code\` from this list, \`details\` and, if
another error caused it, a \`cause\`. The message says where, what was expected, what was found and what to do. A code's
prefix determines its class: \`GGUF_\` is a \`GgufError\`, which also has \`field\`, \`expected\` and \`found\`. Codes are
stable; messages are not.

| code | when |
| --- | --- |
`;

async function writeErrorCodes() {
  const { ERROR_CODES } = await import(pathToFileURL(join(ROOT, "dist", "errors.js")).href);
  const rows = Object.entries(ERROR_CODES).map(([code, sentence]) => `| \`${code}\` | ${sentence} |\n`);
  writeFileSync(join(ROOT, "docs", "errors.md"), HEAD + rows.join(""));
  say(`docs/errors.md lists ${rows.length} codes`);
}

function writeApiReference() {
  const folder = join(ROOT, "docs", "api");
  const { pages, undocumented, unexported } = apiReference(ROOT);
  mkdirSync(folder, { recursive: true });
  for (const file of readdirSync(folder)) if (!pages.has(file)) rmSync(join(folder, file));
  for (const [page, text] of pages) writeFileSync(join(folder, page), text);
  say(`docs/api has ${[...pages.keys()].join(", ")}`);
  for (const name of undocumented) say(`no doc comment: ${name}`);
  for (const name of unexported) say(`not exported: ${name}`);
}

function writePlots() {
  const folder = join(ROOT, "docs", "images", "plots");
  const plots = benchmarkPlots(ROOT);
  mkdirSync(folder, { recursive: true });
  for (const file of readdirSync(folder)) if (!plots.has(file)) rmSync(join(folder, file));
  for (const [name, svg] of plots) writeFileSync(join(folder, name), svg);
  say(`docs/images/plots has ${plots.size} plots`);
}

/** The options of the command line; anything else is refused, since a misspelt one would build the wrong thing. */
function optionsOf(args) {
  try {
    const { values } = parseArgs({
      args,
      options: { references: { type: "boolean" }, serve: { type: "boolean" }, base: { type: "string" } },
    });
    if (values.base !== undefined && !/^\/(?:.*\/)?$/.test(values.base))
      throw new ScriptError(`--base: expected a path such as /rocmforge/, found ${values.base}`);
    return values;
  } catch (error) {
    if (error instanceof ScriptError) throw error;
    throw new ScriptError(`${error.message}; npm run docs takes --references, --serve and --base PATH`);
  }
}

await main(async (args) => {
  const { references = false, serve = false, base } = optionsOf(args);
  await bootstrap();
  await writeErrorCodes();
  writeApiReference();
  writePlots();
  if (references) return 0;
  if (serve) return await serveSite(ROOT);
  await buildSite(ROOT, { base });
  return 0;
});
