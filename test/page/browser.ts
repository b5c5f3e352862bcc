// Debian's Chromium for tests of the chat page, and a visit that notes everything a page must not do: console errors,
// exceptions, violations of the content security policy, requests to other servers.

import { existsSync } from "node:fs";
import { type Browser, chromium, type Page } from "playwright-core";

export const CHROMIUM = "/usr/bin/chromium";
export const CHROMIUM_PACKAGES = ["chromium"] as const;

/** What is missing; undefined if nothing is. */
export async function missingBrowser(): Promise<string | undefined> {
  return existsSync(CHROMIUM) ? undefined : CHROMIUM;
}

export function startBrowser(): Promise<Browser> {
  return chromium.launch({
    executablePath: CHROMIUM,
    headless: true,
    args: [
      "--headless",
      "--no-sandbox",
      "--disable-gpu",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
}

/** Runs in the page, which this project's other code has no types for. */
const REPORT_VIOLATIONS = `document.addEventListener("securitypolicyviolation", (event) =>
  console.error("policy: " + event.violatedDirective + " " + event.blockedURI + " " + event.sourceFile + ":" + event.lineNumber));`;

/** A page and what went wrong on it. */
export interface Visit extends AsyncDisposable {
  readonly page: Page;
  /** Console errors, exceptions, policy violations and requests to other servers. */
  readonly problems: readonly string[];
}

interface VisitOptions {
  readonly width?: number;
  readonly height?: number;
  readonly scale?: number;
  readonly theme?: "light" | "dark";
  /** Starts of problems that the test provokes. */
  readonly expected?: readonly string[];
}

/** Opens a server's chat page in a browser profile of its own. */
export async function visit(browser: Browser, url: string, options: VisitOptions = {}): Promise<Visit> {
  const { width = 1280, height = 800, scale = 1, theme = "light", expected = [] } = options;
  const context = await browser.newContext({
    viewport: { width, height },
    deviceScaleFactor: scale,
    colorScheme: theme,
    acceptDownloads: true,
  });
  const page = await context.newPage();
  const problems: string[] = [];
  const note = (problem: string): void => {
    if (!expected.some((start) => problem.includes(start))) problems.push(problem);
  };
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) note(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => note(`exception: ${error.message}`));
  page.on("request", (request) => {
    const other = request.url();
    if (!other.startsWith(url) && !other.startsWith("blob:") && !other.startsWith("data:")) note(`request: ${other}`);
  });
  await page.addInitScript(REPORT_VIOLATIONS);
  await page.goto(`${url}/`);
  return { page, problems, [Symbol.asyncDispose]: () => context.close() };
}
