// The chat page of `rocmforge serve` as users have it: the command line, the package's files, the embedded model.

import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { SMALL_MODEL } from "../cli/command-line.js";
import { Served } from "../cli/served.js";
import { missingBrowser, startBrowser, visit } from "./browser.js";

const missing = await missingBrowser();
const why = missing === undefined ? "" : ` (skipped: there is no ${missing})`;
const EMBEDDED = new URL("../../models/fable-10m-Q4_K_M.gguf", import.meta.url).pathname;

describe.skipIf(missing !== undefined)(`the page of a server${why}`, () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await startBrowser();
  });
  afterAll(() => browser?.close());

  it("chats with the embedded model, shows its engine, and loads a second model", { timeout: 180_000 }, async () => {
    await using served = await Served.start(["-m", `fable=${EMBEDDED}`, "-m", `small=${SMALL_MODEL}`, "--ctx", "512"]);
    await using visited = await visit(browser, served.url);
    const { page } = visited;
    page.setDefaultTimeout(60_000);
    await page.getByRole("button", { name: "Settings" }).click();
    await page.getByLabel("Max tokens").fill("40");
    await page.getByRole("button", { name: "What the engine is doing" }).click();
    await page.getByLabel("Your question").fill("Tell me about the fox and the king.");
    await page.keyboard.press("Enter");
    await page.locator(".answer-facts", { hasText: /\d+ tokens/ }).waitFor();
    expect((await page.locator(".message.assistant .markdown").textContent())?.length).toBeGreaterThan(10);
    // The counts of the view are the engine's own.
    await page.getByText(/ of [\d,]+ prompt tokens were found/).waitFor();
    await page.getByRole("button", { name: "What is resident" }).click();
    await page.getByText(/^All \d+ tensors are resident\.$/).waitFor();
    await page.getByLabel("Model").selectOption("small");
    await page.getByRole("button", { name: "Load small" }).click();
    await page.getByText(/^All \d+ tensors are resident\.$/).waitFor();
    await page.locator(".header .state-dot.loaded").waitFor();
    expect(visited.problems).toEqual([]);
  });
});
