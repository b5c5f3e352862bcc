// `npm run docs`: writes the generated pages: docs/errors.md from ERROR_CODES, and docs/api/ from the types. Run it after
// changing an error code or a doc comment of a public name; test/project compares the pages with their sources.

import { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { apiReference } from "./api-reference.mjs";
import { bootstrap, ROOT } from "./bootstrap.mjs";
import { main, say } from "./tool.mjs";

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

await main(async () => {
  await bootstrap();
  await writeErrorCodes();
  writeApiReference();
});
