// What a model's file says about the choice of tokens, through the library, the command line and the server: the
// sampling it recommends (`general.sampling.*`), and tokens that are never chosen (`tokenizer.ggml.suppress_tokens`).

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { arr, f32, i32, type GgufEntry } from "../../../src/gguf/entry.js";
import { loadModel, type Model } from "../../../src/index.js";
import { serve } from "../../../src/server/index.js";
import { rocmforge, SMALL_MODEL } from "../../cli/command-line.js";
import { copyModel } from "../../support/copied-model.js";
import { TemporaryFolder } from "../../support/temporary-folder.js";

const PROMPT = "Once upon a time";
const MESSAGES = [{ role: "user", content: "Tell me about the king." }] as const;
const TOKENS = 12;
const OPTIONS = { backend: "cpu", contextTokens: 128, deterministic: true } as const;
const GREEDY = { temperature: 0, maxTokens: TOKENS };

/** The fields of the APIs that hold the text. */
interface Answer {
  readonly choices: readonly { readonly text?: string; readonly message?: { readonly content: string } }[];
  readonly output: readonly { readonly content: readonly { readonly text: string }[] }[];
  readonly content: readonly { readonly text: string }[];
}

interface Route {
  readonly route: string;
  readonly body: object;
  readonly textOf: (response: Answer) => unknown;
}

const ROUTES: readonly Route[] = [
  {
    route: "/v1/completions",
    body: { prompt: PROMPT, max_tokens: TOKENS },
    textOf: ({ choices }) => choices[0].text,
  },
  {
    route: "/v1/chat/completions",
    body: { messages: MESSAGES, max_tokens: TOKENS },
    textOf: ({ choices }) => choices[0].message?.content,
  },
  {
    route: "/v1/responses",
    body: { input: MESSAGES[0].content, max_output_tokens: TOKENS, store: false },
    textOf: ({ output }) => output[0].content[0].text,
  },
  {
    route: "/v1/messages",
    body: { messages: MESSAGES, max_tokens: TOKENS },
    textOf: ({ content }) => content[0].text,
  },
];

const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());

let plain: Model;
let greedyText: string;
beforeAll(async () => {
  plain = await loadModel(SMALL_MODEL, OPTIONS);
  greedyText = (await plain.generate(PROMPT, GREEDY).result).text;
});
afterAll(() => plain[Symbol.asyncDispose]());

async function changedFile(name: string, entries: readonly GgufEntry[]): Promise<string> {
  const path = folder.file(name);
  await copyModel(SMALL_MODEL, path, entries);
  return path;
}

describe("recommended sampling", () => {
  let path: string;
  beforeAll(async () => {
    path = await changedFile("greedy.gguf", [f32("general.sampling.temp", 0), i32("general.sampling.top_k", 3)]);
  });

  it("is used by the library where the caller sets nothing", async () => {
    await using model = await loadModel(path, OPTIONS);
    for (const seed of [1, 2, 3])
      expect((await model.generate(PROMPT, { seed, maxTokens: TOKENS }).result).text).toBe(greedyText);
    const expected = (await plain.chat(MESSAGES, GREEDY).result).text;
    expect((await model.chat(MESSAGES, { maxTokens: TOKENS }).result).text).toBe(expected);
  });

  it("gives way to the caller's own values, one by one", async () => {
    await using model = await loadModel(path, OPTIONS);
    for (const seed of [1, 2, 3]) {
      const own = { temperature: 1.5, seed, maxTokens: TOKENS };
      const kept = await plain.generate(PROMPT, { ...own, topK: 3 }).result;
      expect((await model.generate(PROMPT, own).result).text).toBe(kept.text);
      const replaced = await plain.generate(PROMPT, { ...own, topK: 200 }).result;
      expect((await model.generate(PROMPT, { ...own, topK: 200 }).result).text).toBe(replaced.text);
    }
  });

  it("is used by the commands, and options win", async () => {
    const run = async (...more: string[]): Promise<string> => {
      const { status, stdout } = await rocmforge([
        "generate",
        "-m",
        path,
        "--backend",
        "cpu",
        "--deterministic",
        "--no-echo",
        "-n",
        String(TOKENS),
        "-p",
        PROMPT,
        ...more,
      ]);
      expect(status).toBe(0);
      return stdout.trim();
    };
    expect(await run("--seed", "5")).toBe(greedyText.trim());
    const own = await plain.generate(PROMPT, { temperature: 2, topK: 0, topP: 1, minP: 0, seed: 5, maxTokens: TOKENS })
      .result;
    const flags = ["--temp", "2", "--top-k", "0", "--top-p", "1", "--min-p", "0", "--seed", "5"];
    expect(await run(...flags)).toBe(own.text.trim());
    const answered = await rocmforge(
      ["chat", "-m", path, "--backend", "cpu", "--deterministic", "-n", String(TOKENS)],
      {
        input: `${MESSAGES[0].content}\n`,
      },
    );
    const spoken = (await plain.chat(MESSAGES, GREEDY).result).text;
    expect({ status: answered.status, text: answered.stdout.trim() }).toEqual({ status: 0, text: spoken.trim() });
  });

  it.each(ROUTES)("is used by $route, and a request's values win", async (route) => {
    await using server = await serve({ models: { recommended: path }, model: OPTIONS, port: 0 });
    await server.ready;
    const ask = async (more: object = {}): Promise<unknown> => {
      const response = await fetch(`${server.url}${route.route}`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ model: "recommended", ...route.body, ...more }),
      });
      expect(response.status).toBe(200);
      return route.textOf((await response.json()) as Answer);
    };
    const greedy = await ask({ temperature: 0 });
    expect(greedy).toMatch(/\w/);
    expect(await Promise.all([1, 2, 3].map(() => ask()))).toEqual([greedy, greedy, greedy]);
    const own = await Promise.all([1, 2, 3, 4].map(() => ask({ temperature: 2, top_k: 500 })));
    expect(new Set(own).size).toBeGreaterThan(1);
  });

  it("of values that no sampler can use is ignored", async () => {
    const hostile = await changedFile("hostile.gguf", [
      f32("general.sampling.temp", Number.NaN),
      f32("general.sampling.top_p", -5),
      i32("general.sampling.mirostat", 1),
      arr("general.sampling.top_k", "float32", [1]),
      f32("general.sampling.penalty_repeat", 0),
    ]);
    await using model = await loadModel(hostile, OPTIONS);
    for (const seed of [1, 2]) {
      const expected = await plain.generate(PROMPT, { seed, maxTokens: TOKENS }).result;
      expect((await model.generate(PROMPT, { seed, maxTokens: TOKENS }).result).text).toBe(expected.text);
    }
  });
});

describe("suppressed tokens", () => {
  let suppressed: number[];
  let model: Model;
  beforeAll(async () => {
    const greedy = plain.tokenize(greedyText, { addSpecial: false });
    suppressed = [...new Set(greedy)].slice(0, 4);
    const path = await changedFile("suppressed.gguf", [
      arr("tokenizer.ggml.suppress_tokens", "int32", [...suppressed, -7, 2 ** 30]),
    ]);
    model = await loadModel(path, OPTIONS);
  });
  afterAll(() => model[Symbol.asyncDispose]());

  it("are never chosen, greedily or by chance, and have no log-probability", async () => {
    for (const options of [
      GREEDY,
      { temperature: 1.5, topK: 0, topP: 1, minP: 0, maxTokens: 40 },
      { mirostat: 2 as const },
    ]) {
      const generation = model.generate(PROMPT, { maxTokens: TOKENS, seed: 3, topLogprobs: 20, ...options });
      for await (const { tokens, logprobs = [] } of generation) {
        const seen = [...tokens, ...logprobs.flatMap(({ top }) => top.map(({ token }) => token))];
        expect(seen.filter((token) => suppressed.includes(token))).toEqual([]);
      }
    }
  });

  it("cannot be brought back by a bias", async () => {
    const logitBias = new Map(suppressed.map((token) => [token, 1000] as const));
    const tokens: number[] = [];
    for await (const delta of model.generate(PROMPT, { ...GREEDY, logitBias })) tokens.push(...delta.tokens);
    expect(tokens.length).toBeGreaterThan(0);
    expect(tokens.filter((token) => suppressed.includes(token))).toEqual([]);
  });

  it("are left out of structured output, which still holds", async () => {
    const { text } = await model.generate(PROMPT, { ...GREEDY, regex: "[a-z ]{20}" }).result;
    expect(text).toMatch(/^[a-z ]{1,20}$/);
  });

  it("that a grammar cannot do without fail the request, and only that", async () => {
    const needed = Array.from({ length: plain.vocabularySize }, (_, id) => id).filter((id) =>
      plain.detokenize([id]).startsWith("q"),
    );
    expect(needed.length).toBeGreaterThan(0);
    const path = await changedFile("no-q.gguf", [arr("tokenizer.ggml.suppress_tokens", "int32", needed)]);
    await using without = await loadModel(path, OPTIONS);
    await expect(without.generate(PROMPT, { ...GREEDY, regex: "q" }).result).rejects.toMatchObject({
      code: "OPTION_VALUE",
      message: expect.stringContaining("excludes every token") as string,
    });
    expect((await without.generate(PROMPT, { ...GREEDY, regex: "x" }).result).text).toBe("x");
  });

  it("leave a text as it is", async () => {
    expect(model.detokenize(model.tokenize(greedyText))).toBe(greedyText);
    const [first, second] = await Promise.all([plain, model].map((each) => each.logits(each.tokenize(PROMPT))));
    expect(second).toEqual(first);
  });
});
