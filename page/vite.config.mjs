// How scripts/build-page.mjs builds the chat page: all files in one folder with hashed names, nothing inline, because the
// server's content security policy refuses inline scripts and styles.

import { defineConfig } from "vite";

export default defineConfig({
  base: "/page/",
  publicDir: false,
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    target: "es2022",
    assetsDir: "",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 1000,
  },
  // `npx vite page` while working on the page, beside a running `rocmforge serve`.
  server: {
    proxy: Object.fromEntries(
      ["/v1", "/engine", "/residency", "/tokenize", "/health"].map((path) => [path, "http://127.0.0.1:8080"]),
    ),
  },
});
