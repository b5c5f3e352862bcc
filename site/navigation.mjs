// The pages of the site: which document is shown where, under which name. Every document of the repository is listed once,
// which a test checks; decisions (docs/adr) are reached from their index.

/**
 * One entry of the sidebar.
 * @typedef {{ readonly text: string, readonly page: string }} Entry
 */

/** The sections of the sidebar, in order; pages are paths from the repository's root. */
export const SECTIONS = [
  {
    text: "Guide",
    entries: [
      { text: "What it is", page: "README.md" },
      { text: "Getting started", page: "docs/guide/getting-started.md" },
      { text: "Installation", page: "docs/installation.md" },
      { text: "The library", page: "docs/guide/library.md" },
      { text: "Serving", page: "docs/guide/serving.md" },
      { text: "Structured output", page: "docs/guide/structured-output.md" },
      { text: "Tools", page: "docs/guide/tools.md" },
      { text: "Models by name", page: "docs/models.md" },
      { text: "AI SDK", page: "docs/ai-sdk.md" },
      { text: "Clients", page: "docs/clients.md" },
      { text: "Deployment", page: "docs/guide/deployment.md" },
      { text: "Containers and services", page: "docs/deployment.md" },
      { text: "Bundlers", page: "docs/bundlers.md" },
      { text: "Examples", page: "docs/guide/examples.md" },
    ],
  },
  {
    text: "Help",
    entries: [
      { text: "Troubleshooting", page: "docs/troubleshooting.md" },
      { text: "Checked kernels and verify", page: "docs/verify.md" },
      { text: "Error codes", page: "docs/errors.md" },
      { text: "Environment variables", page: "docs/environment.md" },
      { text: "Glossary", page: "docs/glossary.md" },
    ],
  },
  {
    text: "Reference",
    entries: [
      { text: "rocmforge", page: "docs/api/rocmforge.md" },
      { text: "rocmforge/server", page: "docs/api/server.md" },
      { text: "rocmforge/ai", page: "docs/api/ai.md" },
      { text: "rocmforge/gguf", page: "docs/api/gguf.md" },
      { text: "The server's endpoints", page: "docs/server.md" },
      { text: "Structured output", page: "docs/structured-output.md" },
      { text: "Tool calls and reasoning", page: "docs/tool-calls.md" },
      { text: "Control tokens", page: "docs/control-tokens.md" },
      { text: "Speculative decoding", page: "docs/speculative-decoding.md" },
      { text: "Supported models and types", page: "docs/support.md" },
      { text: "Tuning", page: "docs/tuning.md" },
      { text: "Benchmarks", page: "docs/benchmarks.md" },
    ],
  },
  {
    text: "The project",
    entries: [
      { text: "Architecture", page: "ARCHITECTURE.md" },
      { text: "Decisions", page: "docs/adr/README.md" },
      { text: "Contributing", page: "CONTRIBUTING.md" },
      { text: "Compilers in tests", page: "docs/toolchains.md" },
      { text: "AMD cards by the book", page: "docs/amd.md" },
      { text: "Changelog", page: "CHANGELOG.md" },
    ],
  },
];

/**
 * Where a document is on the site: `docs/` is its root, a folder's README its index, and the README the first page.
 * @param {string} page a document, from the repository's root
 * @returns {string} the site's page, such as `guide/library.md`
 */
export function sitePage(page) {
  if (page === "README.md") return "index.md";
  return page
    .replace(/^docs\//, "")
    .replace(/(^|\/)README\.md$/, "$1index.md")
    .replace(/^[A-Z]+\.md$/, (name) => name.toLowerCase());
}
