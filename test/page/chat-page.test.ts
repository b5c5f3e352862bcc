// One conversation with the chat page in a real browser; chat-page.full.test.ts has the rest.

import { describe, expect, it } from "vitest";
import { startServer } from "../../src/server/testing/test-server.js";
import { missingBrowser, startBrowser, visit } from "./browser.js";

const missing = await missingBrowser();

const why = missing === undefined ? "" : ` (skipped: there is no ${missing})`;

describe.skipIf(missing !== undefined)(`the chat page${why}`, () => {
  it("streams an answer and breaks no rule", async () => {
    await using server = await startServer();
    server.model.script.answer = () => "Hello **there**";
    const browser = await startBrowser();
    try {
      await using visited = await visit(browser, server.url);
      const { page } = visited;
      await page.getByLabel("Your question").fill("Who are you?");
      await page.keyboard.press("Enter");
      await page.getByText("Hello there").waitFor();
      expect(await page.locator(".assistant strong").textContent()).toBe("there");
      expect(visited.problems).toEqual([]);
    } finally {
      await browser.close();
    }
  });
});
