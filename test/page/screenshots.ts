// Makes the pictures of docs/images: the page with a written conversation, the two views, dark, light and on a phone.
// `npm run screenshots` bundles and runs this file; look at the pictures before committing them.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type { Page } from "playwright-core";
import { FakeModel } from "../../src/server/testing/fake-model.js";
import { startServer } from "../../src/server/testing/test-server.js";
import { startBrowser, visit } from "./browser.js";
import { StagedResidency } from "./staged-residency.js";
import { StreamingChat } from "./streaming-chat.js";

const MODEL = "llama3-8b-Q4_K_M";
const DEVICE = "a scripted device, for this picture";
/** Fewer bytes than a picture of twice the size needs. */
const SCALE = 1;

const ANSWER = `<think>The user wants a small example. I will take a 4-token prompt and count what is stored per layer: one key and one value vector for each position.</think>A **KV cache** keeps the keys and values of earlier positions, so that each new token costs one row instead of the whole prompt.

For a model with $L$ layers, $h$ KV heads of width $d$ and 2 bytes per number, a token takes

$$2 \\cdot L \\cdot h \\cdot d \\cdot 2 \\text{ bytes} = 2 \\cdot 32 \\cdot 8 \\cdot 128 \\cdot 2 = 131072 \\text{ bytes.}$$

\`\`\`ts
/** Bytes of the cache for a number of tokens. */
function kvCacheBytes(tokens: number, layers = 32, heads = 8, width = 128): number {
  return 2 * layers * heads * width * 2 * tokens; // keys and values, f16
}

console.log(kvCacheBytes(4096) / 2 ** 20); // 512 MiB
\`\`\`

| context | cache |
| ---: | ---: |
| 4,096 | 512 MiB |
| 32,768 | 4 GiB |

Prompts that begin alike share their blocks: the second one is found in the prefix cache.`;

const REASONING_CHARACTERS = ANSWER.indexOf("</think>");

const TITLES = [
  "Review this pull request for race conditions",
  "Plan a three-day walk along the coast",
  "Why is my f16 sum slightly off?",
] as const;

async function ask(page: Page, question: string): Promise<void> {
  await page.getByLabel("Your question").fill(question);
  await page.keyboard.press("Enter");
  await page.locator('.message.assistant[aria-busy="false"]').last().waitFor();
  await page.getByRole("button", { name: "Send" }).waitFor();
}

async function converse(page: Page): Promise<void> {
  for (const title of TITLES) {
    await ask(page, title);
    await page.keyboard.press("Control+Shift+O");
    await page.locator(".empty-chat").waitFor();
  }
  await ask(page, "Explain how a KV cache works, with a small example.");
  await page.locator("math").first().waitFor();
  await page.locator(".hljs-keyword").first().waitFor();
  await page.mouse.move(700, 5);
}

/** Called by scripts/screenshots.mjs. */
export async function run(folder: string): Promise<void> {
  mkdirSync(folder, { recursive: true });
  const staged = new StagedResidency("llama3-8b", DEVICE);
  const model = new DemoModel(MODEL, 8192);
  await using server = await startServer({ logLevel: "silent", chat: new StreamingChat() }, [], model);
  server.pool.residencies.set(MODEL, staged.residency);
  const browser = await startBrowser();
  try {
    for (const theme of ["dark", "light"] as const) {
      await using visited = await visit(browser, server.url, { theme, scale: SCALE, width: 1360, height: 860 });
      const { page } = visited;
      await converse(page);
      await page.screenshot({ path: join(folder, `chat-${theme}.png`) });
      if (theme === "light") continue;
      await page.getByLabel("What is resident").click();
      server.pool.states.set(MODEL, "loading");
      await staged.arrive(0.62);
      await pause(1200);
      await page.screenshot({ path: join(folder, "residency.png") });
      server.pool.states.delete(MODEL);
      await staged.arrive(1);
      await page.getByLabel("What the engine is doing").click();
      for (let sample = 0; sample < 14; sample++) {
        model.busy = sample;
        await pause(550);
      }
      await page.screenshot({ path: join(folder, "engine.png") });
      model.busy = undefined;
    }
    await using phone = await visit(browser, server.url, { theme: "dark", width: 390, height: 780, scale: 1.5 });
    await ask(phone.page, "Explain how a KV cache works, with a small example.");
    await phone.page.locator("math").first().waitFor();
    await phone.page.screenshot({ path: join(folder, "chat-phone.png") });
  } finally {
    await browser.close();
  }
}

/** A model that writes the answer above, and whose engine looks busy when it is told to. */
class DemoModel extends FakeModel {
  /** The number of a sample; undefined at rest. */
  busy: number | undefined;
  #generated = 0;

  constructor(name: string, contextTokens: number) {
    super(name, contextTokens);
    // As fast as a reader of pictures believes.
    this.script.beforeDelta = async (index) => await pause(index < REASONING_CHARACTERS ? 12 : 4);
    this.script.answer = (prompt) => (prompt.includes("KV cache") ? ANSWER : "A short answer.");
  }

  override statistics() {
    const sample = this.busy ?? 0;
    const running = this.busy === undefined ? 0 : 5 + (sample % 3);
    this.#generated += running * (22 + 4 * Math.sin(sample));
    return {
      ...super.statistics(),
      running,
      queued: sample > 6 ? 2 : 0,
      stepSequences: running,
      stepDecodeTokens: Math.max(0, running - 1),
      stepPrefillTokens: running > 0 ? 128 : 0,
      blocks: 4096,
      freeBlocks: 2210,
      cachedBlocks: 1102,
      promptTokens: 48_210,
      cachedTokens: 31_774,
      generatedTokens: Math.round(this.#generated),
      steps: 8120,
      stepsMs: 96_400,
    };
  }
}
