// The chat page in a real browser: conversations with stop, edit, regenerate and branches, Markdown, tool calls, keys,
// what is kept and exported, both views, and accessibility. Every visit must break no rule: no console error, no
// violation of the content security policy, no request to another server.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { setTimeout as pause } from "node:timers/promises";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { ServerOptions } from "../../src/server/completion/server-options.js";
import { FakeModel } from "../../src/server/testing/fake-model.js";
import { startServer, type TestServer } from "../../src/server/testing/test-server.js";
import { installPackages, mayInstall } from "../support/debian-packages.js";
import { TemporaryFolder } from "../support/temporary-folder.js";
import { CHROMIUM_PACKAGES, missingBrowser, startBrowser, visit, type Visit } from "./browser.js";
import { smallPdf } from "./small-pdf.js";
import { StagedResidency } from "./staged-residency.js";
import { StreamingChat } from "./streaming-chat.js";

const LIMIT_MS = 120_000;
const missing = await missingBrowser();
const cannot = missing !== undefined && !mayInstall();

type Answer = (prompt: string) => string;

async function serve(
  answer: Answer,
  options: Partial<ServerOptions> = {},
): Promise<TestServer & { readonly chat: StreamingChat }> {
  const chat = new StreamingChat();
  const server = await startServer({ chat, ...options });
  server.model.script.answer = answer;
  return { ...server, chat };
}

async function ask(page: Page, question: string): Promise<void> {
  await page.getByLabel("Your question").fill(question);
  await page.keyboard.press("Enter");
}

/** Resolves when the last answer is finished. */
async function answered(page: Page, text: string): Promise<void> {
  await page.locator(".message.assistant").last().getByText(text).first().waitFor();
  await page.getByRole("button", { name: "Send" }).waitFor();
}

const texts = (page: Page, selector: string): Promise<string[]> => page.locator(selector).allTextContents();

describe.skipIf(cannot)(`the chat page${cannot ? ` (skipped: needs ${CHROMIUM_PACKAGES.join(", ")})` : ""}`, () => {
  let browser: Browser;
  beforeAll(async () => {
    if (missing !== undefined) {
      const lacking = await installPackages(CHROMIUM_PACKAGES, missingBrowser);
      if (lacking !== undefined) throw new Error(`apt-get could not install ${CHROMIUM_PACKAGES.join(", ")}`);
    }
    browser = await startBrowser();
  }, 600_000);
  afterAll(() => browser?.close());

  /** Runs a test on a visit, and checks that it broke no rule. */
  async function visiting(
    server: TestServer,
    use: (page: Page, visited: Visit) => Promise<void>,
    options: Parameters<typeof visit>[2] = {},
  ): Promise<void> {
    await using visited = await visit(browser, server.url, options);
    visited.page.setDefaultTimeout(30_000);
    await use(visited.page, visited);
    expect(visited.problems).toEqual([]);
  }

  it("stops an answer, and the server stops generating", { timeout: LIMIT_MS }, async () => {
    await using server = await serve(() => "word ".repeat(2000));
    server.model.script.beforeDelta = () => pause(5);
    await visiting(server, async (page) => {
      await ask(page, "Go on");
      await page.getByText("word word word").waitFor();
      await page.getByRole("button", { name: "Stop generating" }).click();
      await page.getByText("stopped").waitFor();
      await expect.poll(() => server.model.running).toBe(0);
      expect(server.model.cancelled).toBe(1);
      // Escape does the same.
      await ask(page, "Again");
      await page.getByRole("button", { name: "Stop generating" }).waitFor();
      await page.keyboard.press("Escape");
      await page.getByRole("button", { name: "Send" }).waitFor();
    });
  });

  it("keeps old versions of edited questions and regenerated answers", { timeout: LIMIT_MS }, async () => {
    let count = 0;
    await using server = await serve(() => `Answer ${++count}`);
    await visiting(server, async (page) => {
      await ask(page, "First question");
      await answered(page, "Answer 1");
      await page.getByRole("button", { name: "Regenerate" }).click();
      await answered(page, "Answer 2");
      await page.getByRole("button", { name: "Previous version" }).click();
      await page.getByText("Answer 1").waitFor();
      await page.getByRole("button", { name: "Edit question" }).click();
      await page.getByRole("textbox", { name: "Edit question" }).fill("Second question");
      await page.getByRole("button", { name: "Ask again" }).click();
      await answered(page, "Answer 3");
      expect(await texts(page, ".bubble")).toEqual(["Second question"]);
      await page.getByRole("button", { name: "Previous version" }).click();
      await page.getByText("First question").first().waitFor();
      expect(await texts(page, ".bubble")).toEqual(["First question"]);
      expect(server.model.requests).toHaveLength(3);
    });
  });

  it("sends the shown branch with the settings, and nothing else", { timeout: LIMIT_MS }, async () => {
    await using server = await serve((prompt) => (prompt.includes("Two") ? "Second" : "First"));
    await visiting(server, async (page) => {
      await page.getByRole("button", { name: "Settings" }).click();
      await page.getByLabel("System prompt").fill("Be brief.");
      await page.getByLabel("Temperature").fill("0.3");
      await page.getByLabel("Max tokens").fill("200");
      await page.getByLabel("Seed").fill("7");
      await page.getByLabel("Save as").fill("Brief");
      await page.getByRole("button", { name: "Save" }).click();
      await page.getByRole("button", { name: "Close panel" }).click();
      await ask(page, "One");
      await answered(page, "First");
      await ask(page, "Two");
      await answered(page, "Second");
    });
    const { messages } = server.chat.conversations.at(-1) ?? { messages: [] };
    expect(messages.map(({ role }) => role)).toEqual(["system", "user", "assistant", "user"]);
    expect(server.model.requests.at(-1)).toMatchObject({ maxTokens: 200, sampling: { temperature: 0.3, seed: 7 } });
  });

  it("shows Markdown as elements, code in colours, formulas, and HTML as text", { timeout: LIMIT_MS }, async () => {
    const answer = [
      "## Title",
      "A **bold** word, `code` and a [link](https://example.com/).",
      "- one\n- two\n  - three",
      "1. first\n2. second",
      "| a | b |\n| --- | ---: |\n| 1 | 2 |",
      "```ts\nconst answer: number = 42;\n```",
      "Inline $x^2$ costs $5 and $6.",
      "$$\\frac{1}{2}$$",
      '<img src=x onerror="alert(1)"> <script>alert(2)</script>',
      "[bad](javascript:alert(3)) ![shot](https://example.com/a.png)",
    ].join("\n\n");
    await using server = await serve(() => answer);
    await visiting(server, async (page) => {
      await ask(page, "Show everything");
      await answered(page, "Title");
      const message = page.locator(".message.assistant");
      await message.locator(".hljs-keyword").first().waitFor();
      await message.locator("math").first().waitFor();
      expect(await message.locator("h3").textContent()).toBe("Title");
      expect(await message.locator("strong").textContent()).toBe("bold");
      expect(await message.locator("li").count()).toBe(5);
      expect(await message.locator("td.align-right").textContent()).toBe("2");
      expect(await message.locator("math").count()).toBe(2);
      expect(await message.textContent()).toContain("costs $5 and $6.");
      // None of the tags became an element, and no link leads to a script.
      expect(await message.locator("img, script").count()).toBe(0);
      expect(await message.textContent()).toContain("<script>alert(2)</script>");
      const links = await message.locator("a").evaluateAll((all) => all.map((each) => each.getAttribute("href")));
      expect(links).toEqual(["https://example.com/", "https://example.com/a.png"]);
      await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
      await message.getByRole("button", { name: "Copy code" }).click();
      await message.getByRole("button", { name: "Copied" }).waitFor();
      expect(await page.evaluate("navigator.clipboard.readText()")).toBe("const answer: number = 42;");
    });
  });

  it("folds reasoning with its time", { timeout: LIMIT_MS }, async () => {
    await using server = await serve(() => "<think>Let me think about it.</think>Done.");
    server.model.script.beforeDelta = () => pause(10);
    await visiting(server, async (page) => {
      await ask(page, "Why?");
      await page.getByText("Thinking…").waitFor();
      await answered(page, "Done.");
      const summary = page.getByText(/^Thought for \d+ ms$/);
      await summary.waitFor();
      expect(await page.getByText("Let me think about it.").isVisible()).toBe(false);
      await summary.click();
      await page.getByText("Let me think about it.").waitFor();
    });
  });

  it("shows tool calls and continues with their results", { timeout: LIMIT_MS }, async () => {
    await using server = await serve((prompt) =>
      prompt.includes("tool:") ? "It is sunny." : '<call weather {"city":"Oslo","days":2}>',
    );
    await visiting(server, async (page) => {
      await page.getByRole("button", { name: "Settings" }).click();
      await page.getByLabel("Tools").fill('[{"name":"weather","parameters":{"type":"object"}}]');
      await page.getByRole("button", { name: "Close panel" }).click();
      await ask(page, "What is the weather?");
      const call = page.getByRole("region", { name: "Call of weather" });
      await call.getByText('"Oslo"').waitFor();
      await call.getByLabel("Result of weather").fill("18 degrees, sunny");
      await call.getByRole("button", { name: "Give result and continue" }).click();
      await answered(page, "It is sunny.");
      expect(await call.getByRole("textbox").count()).toBe(0);
    });
    expect(server.chat.conversations.at(-1)?.messages.map(({ role }) => role)).toEqual(["user", "assistant", "tool"]);
  });

  it(
    "keeps conversations over a reload, finds, renames, exports, imports and deletes them",
    { timeout: LIMIT_MS },
    async () => {
      await using server = await serve((prompt) => (prompt.includes("fox") ? "A red fox." : "A king."));
      using folder = new TemporaryFolder();
      await visiting(server, async (page) => {
        await ask(page, "Tell me of the fox");
        await answered(page, "A red fox.");
        await page.getByRole("button", { name: "New chat" }).first().click();
        await ask(page, "And now the monarch");
        await answered(page, "A king.");
        await page.reload();
        await page.getByText("A king.").waitFor();
        expect(await texts(page, ".conversation .title")).toEqual(["And now the monarch", "Tell me of the fox"]);
        await page.keyboard.press("Control+k");
        await page.keyboard.type("red");
        await page.getByText("A red fox.").waitFor();
        expect(await texts(page, ".conversation .title")).toEqual(["Tell me of the fox"]);
        await page.getByLabel("Search conversations").fill("");
        await page.getByText("And now the monarch").first().hover();
        await page.getByRole("button", { name: "Rename And now the monarch" }).click();
        await page.getByLabel("Title").fill("Kings");
        await page.keyboard.press("Enter");
        await page.getByRole("button", { name: "Kings", exact: true }).waitFor();
        const saving = page.waitForEvent("download");
        await page.getByRole("button", { name: "Export all conversations" }).click();
        await (await saving).saveAs(folder.file("chats.json"));
        expect(JSON.parse(readFileSync(folder.file("chats.json"), "utf8")).chats).toHaveLength(2);
        await page.getByLabel("File of conversations").setInputFiles(folder.file("chats.json"));
        await page.getByText("Imported 2 conversations.").waitFor();
        expect(await texts(page, ".conversation .title")).toHaveLength(4);
        page.on("dialog", (dialog) => void dialog.accept());
        await page.getByRole("button", { name: "Kings", exact: true }).first().hover();
        await page.getByRole("button", { name: "Delete Kings" }).first().click();
        await expect.poll(() => texts(page, ".conversation .title")).toHaveLength(3);
      });
    },
  );

  it("attaches text files and refuses others", { timeout: LIMIT_MS }, async () => {
    await using server = await serve((prompt) => (prompt.includes("secret word") ? "Found it." : "Nothing."));
    await visiting(server, async (page) => {
      await page.getByLabel("Text and PDF files", { exact: true }).setInputFiles([
        { name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("the secret word") },
        { name: "photo.png", mimeType: "image/png", buffer: Buffer.from([0x89, 0x50, 0, 0xff]) },
      ]);
      await page.getByText("photo.png: only text and PDF files can be attached").waitFor();
      await ask(page, "What does it say?");
      await answered(page, "Found it.");
    });
  });

  it("attaches the text of PDFs, and refuses those without any", { timeout: LIMIT_MS }, async () => {
    let seen = "";
    await using server = await serve((prompt) => {
      seen = prompt;
      return "Read.";
    });
    await visiting(server, async (page) => {
      await page.getByLabel("Text and PDF files", { exact: true }).setInputFiles([
        { name: "report.pdf", mimeType: "application/pdf", buffer: smallPdf(["The first page", "The second page"]) },
        { name: "scan.pdf", mimeType: "application/pdf", buffer: smallPdf([""]) },
        { name: "broken.pdf", mimeType: "application/pdf", buffer: Buffer.from("%PDF-1.7\nnothing") },
      ]);
      await page.getByText("scan.pdf: it has no text, only pictures; broken.pdf: it cannot be read").waitFor();
      await ask(page, "What does it say?");
      await answered(page, "Read.");
      expect(seen).toContain("report.pdf:\n```\nThe first page\n\nThe second page\n```\n\nWhat does it say?");
    });
  });

  it("asks for an API key", { timeout: LIMIT_MS }, async () => {
    await using server = await serve(() => "Welcome.", { apiKeys: ["a-secret-key"] });
    const expected = ["Failed to load resource: the server responded with a status of 401"];
    await visiting(
      server,
      async (page) => {
        await page.getByRole("dialog", { name: "API key" }).waitFor();
        await page.getByLabel("Key", { exact: true }).fill("a-wrong-key");
        await page.getByRole("button", { name: "Use this key" }).click();
        await page.getByText("The server does not accept this key.").waitFor();
        await page.getByLabel("Key", { exact: true }).fill("a-secret-key");
        await page.getByRole("button", { name: "Use this key" }).click();
        await page.getByRole("heading", { name: "Chat with fake" }).waitFor();
        await ask(page, "Hello");
        await answered(page, "Welcome.");
      },
      { expected },
    );
  });

  it("tells why an answer failed, and can try again", { timeout: LIMIT_MS }, async () => {
    await using server = await serve(() => "Better.");
    const expected = ["Failed to load resource"];
    server.model.script.refuse = () => new Error("broken");
    await visiting(
      server,
      async (page) => {
        await ask(page, "Hello");
        await page.getByRole("alert").waitFor();
        delete server.model.script.refuse;
        await page.getByRole("button", { name: "Regenerate" }).click();
        await answered(page, "Better.");
      },
      { expected },
    );
  });

  it("switches between models and shows their state", { timeout: LIMIT_MS }, async () => {
    const other = new FakeModel("other");
    await using server = await startServer({ chat: new StreamingChat() }, [other]);
    server.pool.states.set("other", "unloaded");
    other.script.answer = () => "I am the other.";
    await visiting(server, async (page) => {
      await page.getByLabel("Model").selectOption("other");
      await page.locator(".model-state", { hasText: "not loaded" }).waitFor();
      server.pool.states.delete("other");
      await page.getByRole("button", { name: "Load", exact: true }).click();
      await page.getByText("4,096 tokens of context").waitFor();
      await ask(page, "Who are you?");
      await answered(page, "I am the other.");
    });
  });

  it("draws a model layer by layer while it loads", { timeout: LIMIT_MS }, async () => {
    await using server = await serve(() => "Ready.");
    const staged = new StagedResidency("llama3-1b", "A card with 16 GB");
    server.pool.states.set("fake", "loading");
    server.pool.residencies.set("fake", staged.residency);
    await visiting(server, async (page) => {
      await page.getByRole("button", { name: "What is resident" }).click();
      await page.getByText("0 resident").waitFor();
      await staged.arrive(0.5);
      await page.getByRole("button", { name: /^Layer 3 ?: 9 of 9 tensors resident/ }).waitFor();
      expect(await page.locator(".layers .tensor.arriving").count()).toBeGreaterThan(0);
      expect(await page.locator(".layers .tensor.unloaded").count()).toBeGreaterThan(0);
      await page.getByRole("button", { name: /^Layer 3 ?:/ }).click();
      const table = page.getByRole("region", { name: "Tensors of Layer 3" });
      expect(await table.getByRole("row").count()).toBe(10);
      await table.getByText("ffn_down.weight").waitFor();
      await staged.arrive(1);
      server.pool.states.delete("fake");
      await page.getByText(`All ${staged.tensors} tensors are resident.`).waitFor();
      await page.locator(".header .state-dot.loaded").waitFor();
    });
  });

  it("shows what the engine is doing, and stops watching when the view is closed", { timeout: LIMIT_MS }, async () => {
    await using server = await serve(() => "word ".repeat(400));
    server.model.script.beforeDelta = () => pause(10);
    let reads = 0;
    const statistics = server.pool.statistics.bind(server.pool);
    server.pool.statistics = () => (reads++, statistics());
    await visiting(server, async (page) => {
      await page.getByRole("button", { name: "What the engine is doing" }).click();
      await page.getByText("No step is running.").waitFor();
      await ask(page, "Go on");
      await page.getByText("1 sequence", { exact: true }).waitFor();
      await page.getByRole("button", { name: "Close panel" }).click();
      await pause(700);
      const before = reads;
      await pause(1500);
      expect(reads).toBe(before);
      await page.getByRole("button", { name: "Stop generating" }).click();
    });
  });

  it("shows the place of a waiting answer in the queue", { timeout: LIMIT_MS }, async () => {
    await using server = await serve(() => "At last");
    let begin: () => void = () => {};
    const turn = new Promise<void>((resolve) => (begin = resolve));
    server.model.script.beforeDelta = () => turn;
    let queued = 3;
    let reads = 0;
    const statistics = server.model.statistics.bind(server.model);
    server.model.statistics = () => (reads++, { ...statistics(), queued });
    await visiting(server, async (page) => {
      await ask(page, "Me too");
      await page.getByText("Place 3 in the queue").waitFor();
      queued = 1;
      await page.getByText("Place 1 in the queue").waitFor();
      // Others come after this one.
      queued = 5;
      await pause(1200);
      await page.getByText("Place 1 in the queue").waitFor();
      begin();
      await answered(page, "At last");
      const before = reads;
      await pause(1200);
      expect(reads).toBe(before);
    });
  });

  it("shows the drafts of the running step", { timeout: LIMIT_MS }, async () => {
    await using server = await serve(() => "Hello");
    const statistics = server.model.statistics.bind(server.model);
    const step = { stepSequences: 1, stepDecodeTokens: 1, stepDraftTokens: 4, stepPrefillTokens: 0 };
    server.model.statistics = () => ({ ...statistics(), ...step });
    await visiting(server, async (page) => {
      await page.getByRole("button", { name: "What the engine is doing" }).click();
      await page.getByText("1 sequence: 1 decode, 4 draft, 0 prefill tokens").waitFor();
      await page.getByLabel("Tokens of the running step: decode 1, draft 4, prefill 0, of 5").waitFor();
    });
  });

  describe.each([
    ["dark", 1280],
    ["light", 1280],
    ["light", 390],
  ] as const)("axe finds no serious violation: %s, %i pixels wide", (theme, width) => {
    it("in a conversation, the panels and the dialogs", { timeout: LIMIT_MS }, async () => {
      await using server = await serve(
        () => "<think>Hm.</think># Title\n\n| a |\n| - |\n| b |\n\n```ts\nlet a = 1; // why\n```",
      );
      server.pool.residencies.set("fake", new StagedResidency("llama3-1b", "A card").residency);
      await visiting(
        server,
        async (page) => {
          expect(await seriousViolations(page)).toEqual([]);
          await ask(page, "Hello");
          await answered(page, "Title");
          expect(await seriousViolations(page)).toEqual([]);
          for (const name of ["Settings", "What the engine is doing", "What is resident"]) {
            await page.getByRole("button", { name, exact: true }).click();
            await page.getByRole("complementary", { name }).waitFor();
            await pause(400);
            expect([name, await seriousViolations(page)]).toEqual([name, []]);
            await page.getByRole("button", { name: "Close panel" }).click();
          }
          await page.keyboard.press("Control+/");
          await page.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor();
          expect(await seriousViolations(page)).toEqual([]);
        },
        { theme, width, height: 780, expected: ["policy:", "violates the following Content Security Policy"] },
      );
    });
  });

  it("fits a phone: nothing is wider than the screen", { timeout: LIMIT_MS }, async () => {
    await using server = await serve(() => `${"long".repeat(60)}\n\n\`\`\`\n${"x".repeat(300)}\n\`\`\``);
    await visiting(
      server,
      async (page) => {
        expect(await page.getByRole("navigation", { name: "Conversations" }).count()).toBe(0);
        await ask(page, "Hello");
        await answered(page, "longlong");
        expect(await page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(390);
        await page.getByRole("button", { name: "Show conversations" }).click();
        await page.getByRole("navigation", { name: "Conversations" }).waitFor();
        await page.getByRole("button", { name: "Hello", exact: true }).click();
        expect(await page.getByRole("navigation", { name: "Conversations" }).count()).toBe(0);
      },
      { width: 390, height: 780 },
    );
  });
});

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Rules that are violated with the impact "serious" or "critical", and where. */
async function seriousViolations(page: Page): Promise<readonly string[]> {
  await page.evaluate(axe);
  const { violations } = (await page.evaluate("axe.run()")) as {
    readonly violations: readonly {
      readonly id: string;
      readonly impact: string;
      readonly nodes: readonly { readonly html: string }[];
    }[];
  };
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 120)).join(" | ")}`);
}
