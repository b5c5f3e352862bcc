// The documentation site, built as `npm run docs` builds it and opened in a browser: no broken link, no error, nothing from
// another server, plots in both schemes, and a search that finds a page.

import { existsSync, readFileSync, statSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { CHROMIUM_PACKAGES, missingBrowser, startBrowser, visit } from "../page/browser.js";
import { installPackages, mayInstall } from "../support/debian-packages.js";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const BUILT = join(ROOT, "site", "dist");
const LIMIT_MS = 600_000;
const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html",
  ".js": "text/javascript",
  ".css": "text/css",
  ".svg": "image/svg+xml",
  ".json": "application/json",
  ".png": "image/png",
};

const { buildSite } = (await import(join(ROOT, "scripts", "build-site.mjs"))) as {
  buildSite(root: string): Promise<void>;
};
const { isInstalled } = (await import(join(ROOT, "scripts", "install.mjs"))) as {
  isInstalled(folder: string): boolean;
};
const canBuild = isInstalled(join(ROOT, "site"));
const missing = await missingBrowser();
const cannot = missing !== undefined && !mayInstall();

function serveBuilt(): Promise<Server> {
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? "/", "http://localhost");
    const file = join(BUILT, decodeURI(pathname), pathname.endsWith("/") ? "index.html" : "");
    if (!file.startsWith(BUILT) || !existsSync(file) || !statSync(file).isFile())
      return void response.writeHead(404).end();
    response.writeHead(200, { "content-type": TYPES[extname(file)] ?? "text/plain" }).end(readFileSync(file));
  });
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server)));
}

const skipped = canBuild ? "" : " (skipped: site/ is not installed; npm run test:full installs it)";

describe.skipIf(!canBuild)(`the documentation site${skipped}`, () => {
  beforeAll(() => buildSite(ROOT), LIMIT_MS);

  it("has its pages, and the files that they link to", () => {
    for (const page of ["index.html", "guide/library.html", "api/rocmforge.html", "repository/examples/rag.ts.txt"])
      expect(existsSync(join(BUILT, page))).toBe(true);
  });

  describe.skipIf(cannot)(`in a browser${cannot ? ` (skipped: needs ${CHROMIUM_PACKAGES.join(", ")})` : ""}`, () => {
    let browser: Browser;
    let server: Server;
    let url: string;
    beforeAll(async () => {
      if (missing !== undefined) await installPackages(CHROMIUM_PACKAGES, missingBrowser);
      browser = await startBrowser();
      server = await serveBuilt();
      url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    }, LIMIT_MS);
    afterAll(async () => {
      await browser.close();
      server.closeAllConnections();
      server.close();
    });

    it("opens pages without an error or a request to another server", async () => {
      await using opened = await visit(browser, url);
      const { page, problems } = opened;
      for (const path of ["/benchmarks.html", "/api/rocmforge.html", "/guide/library.html", "/adr/"]) {
        await page.goto(`${url}${path}`, { waitUntil: "networkidle" });
        expect(await page.locator("h1").count()).toBe(1);
      }
      expect(problems).toEqual([]);
    });

    it("finds a symptom by its words", async () => {
      await using opened = await visit(browser, url);
      const { page, problems } = opened;
      await page.getByRole("button", { name: "Search" }).click();
      await page.getByRole("searchbox").fill("dev/kfd");
      await page.locator(".VPLocalSearchBox .result").first().click();
      await page.waitForURL(/troubleshooting\.html#/);
      expect(problems).toEqual([]);
    });

    it.each(["light", "dark"] as const)("shows plots in the %s scheme, whatever the system's is", async (theme) => {
      await using opened = await visit(browser, url, { theme: theme === "light" ? "dark" : "light" });
      const { page } = opened;
      await page.evaluate(`localStorage.setItem("vitepress-theme-appearance", "${theme}")`);
      await page.goto(`${url}/benchmarks.html`, { waitUntil: "networkidle" });
      await page.getByAltText("Decode of four models").scrollIntoViewIfNeeded();
      const plot = `document.querySelector('img[alt^="Decode of four models"]')`;
      expect(await page.evaluate(`${plot}.naturalWidth`)).toBe(720);
      // Pictures follow the scheme of their element, which is the site's choice.
      expect(await page.evaluate(`getComputedStyle(${plot}).colorScheme`)).toBe(theme);
    });
  });
});
