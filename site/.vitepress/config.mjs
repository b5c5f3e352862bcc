// The site's settings: pages are the repository's own documents (site/navigation.mjs has the list), search is local, and
// nothing is loaded from another server. `npm run docs` builds it to site/dist.

import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { documentsOf, slugOf } from "../../scripts/document-links.mjs";
import { SECTIONS, sitePage } from "../navigation.mjs";
import { RepositoryLinks } from "../repository-links.mjs";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const links = new RepositoryLinks(ROOT);
const address = (page) =>
  `/${sitePage(page)
    .replace(/\.md$/, "")
    .replace(/(^|\/)index$/, "$1")}`;

export default {
  title: "ROCmForge",
  description: "Runs GGUF language models from TypeScript: AMD GPUs, NVIDIA GPUs and the CPU",
  lang: "en",
  // An empty icon: browsers would ask the server for one.
  head: [["link", { rel: "icon", href: "data:," }]],
  srcDir: ROOT,
  outDir: fileURLToPath(new URL("../dist", import.meta.url)),
  cacheDir: fileURLToPath(new URL("../.cache", import.meta.url)),
  // Markdown outside of docs/ is a fixture or belongs to a package.
  srcExclude: readdirSync(ROOT, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && entry.name !== "docs")
    .map(({ name }) => `${name}/**`),
  rewrites: Object.fromEntries(documentsOf(ROOT).map((page) => [page, sitePage(page)])),
  markdown: {
    anchor: { slugify: slugOf },
    config: (markdown) => markdown.use(links.plugin),
  },
  themeConfig: {
    search: { provider: "local" },
    outline: { level: [2, 3] },
    nav: [
      { text: "Guide", link: address("docs/guide/getting-started.md") },
      { text: "API", link: address("docs/api/rocmforge.md") },
      { text: "Benchmarks", link: address("docs/benchmarks.md") },
      { text: "Troubleshooting", link: address("docs/troubleshooting.md") },
    ],
    sidebar: SECTIONS.map(({ text, entries }) => ({
      text,
      collapsed: false,
      items: entries.map((entry) => ({ text: entry.text, link: address(entry.page) })),
    })),
  },
  buildEnd: ({ outDir }) => links.copyFiles(outDir),
};
