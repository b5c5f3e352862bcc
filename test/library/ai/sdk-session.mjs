// The AI SDK with models of this process, as its users call it: each scenario with the package of test/server/clients, on a
// Node that it runs on. Prints what came of each (JSON). Arguments: a scripted model's file, the embedded model's file.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { createRocmForge } from "../../../dist/ai/index.js";
import { openModel } from "../../../dist/internals.js";
import { Script, scripted } from "../../server/clients/scripted-server.mjs";

// Else it speaks of them on standard output.
globalThis.AI_SDK_LOG_WARNINGS = false;
const clients = createRequire(new URL("../../server/clients/package.json", import.meta.url));
const load = (name) => import(pathToFileURL(clients.resolve(name)).href);
const ai = await load("ai-7");
const { z } = await load("zod");
const { generateText, streamText, Output, stepCountIs, tool } = ai;

const [, , scriptedPath, embeddedPath] = process.argv;
const REASONED = "<think>\nI look.\n</think>\n\n";
const CALL = `<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>`;
const PNG = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
);
const LONG =
  "Once there was a fox who lived beside the sea, and a king who wanted to know how the tides come and go. ".repeat(3);

/** The first rule that fits the prompt; the template's own text around messages is part of it. */
const RULES = [
  {
    when: "I look\\.\\n</think>.*<tool_call>.*Oslo.*<tool_response>\\nIt rains in Oslo",
    answer: `<think>\nI know.\n</think>\n\nIt rains.`,
  },
  { when: "What is the weather", answer: `${REASONED}Let me look.\n${CALL}` },
  { when: "colours\\.txt:\\nred and blue\\n\\nWhich colours", answer: `${REASONED}Red and blue.` },
  { when: "And his name\\?.*assistant\\n$", answer: `${REASONED}Reynard.` },
  // What is constrained has no thoughts: the template closes them before the reply begins.
  { when: "As JSON.*<think>\\n\\n</think>\\n\\n$", answer: `{"hero": ["fox", 7]}` },
  { when: "Who is the hero\\?", answer: `${REASONED}The fox.` },
].map((rule) => ({ ...rule, repeats: true }));

const model = await openModel(scriptedPath, { backend: "cpu", contextTokens: 4096 });
Object.defineProperty(model, "engine", { value: scripted(model.engine, new Script(RULES), () => {}) });
const watched = await openModel(embeddedPath, { backend: "cpu" });
const provider = createRocmForge({
  models: { scripted: model, watched, story: embeddedPath, missing: `${embeddedPath}.missing` },
  model: { backend: "cpu" },
});
const settings = { model: provider("scripted"), maxRetries: 0 };
const free = { model: provider("story"), maxRetries: 0, seed: 1 };

const weather = tool({
  description: "The weather in a city",
  inputSchema: z.object({ city: z.enum(["Oslo", "Rome"]) }),
  execute: async ({ city }) => `It rains in ${city}.`,
});
const hero = z.object({ name: z.string().max(12), age: z.int().min(1).max(99), kind: z.enum(["fox", "king"]) });

async function told(result) {
  const steps = await result.steps;
  return {
    text: await result.text,
    reasoning: steps.map(({ reasoningText }) => reasoningText ?? null),
    results: steps.flatMap(({ toolResults }) => toolResults.map(({ output }) => output)),
    finish: await result.finishReason,
    raw: steps.map(({ rawFinishReason }) => rawFinishReason),
    usage: await result.usage,
    warnings: await result.warnings,
  };
}

async function partTypes(result) {
  const types = [];
  for await (const { type } of result.fullStream) if (type !== types.at(-1)) types.push(type);
  return types;
}

const failure = (error) => ({ name: error.name, code: error.code ?? null, message: error.message });
const failed = (promise) => promise.then(() => "no failure", failure);

const SCENARIOS = {
  async generateText() {
    const result = await generateText({ ...settings, prompt: "Who is the hero?" });
    const { modelId, id, timestamp } = result.response;
    const metadata = result.providerMetadata.rocmforge;
    return { ...(await told(result)), modelId, id, dated: timestamp instanceof Date, metadata };
  },

  async streamText() {
    const result = streamText({ ...settings, prompt: "Who is the hero?", includeRawChunks: true });
    const types = await partTypes(result);
    return { types, ...(await told(result)) };
  },

  async tools() {
    const result = await generateText({
      ...settings,
      prompt: "What is the weather?",
      tools: { weather },
      stopWhen: stepCountIs(3),
    });
    return await told(result);
  },

  async streamedTools() {
    const result = streamText({
      ...settings,
      prompt: "What is the weather?",
      tools: { weather },
      stopWhen: stepCountIs(3),
    });
    const types = await partTypes(result);
    return { types, ...(await told(result)) };
  },

  async secondTurn() {
    const instructions = `You are a patient teacher. ${LONG}`;
    const messages = [{ role: "user", content: "Who is the hero?" }];
    const first = await generateText({ ...settings, instructions, messages });
    messages.push(...first.response.messages, { role: "user", content: "And his name?" });
    const second = await generateText({ ...settings, instructions, messages });
    return { text: second.text, first: first.usage, second: second.usage };
  },

  async textFile() {
    const file = { type: "file", mediaType: "text/plain", filename: "colours.txt", data: Buffer.from("red and blue") };
    const content = [file, { type: "text", text: "Which colours?" }];
    return await told(await generateText({ ...settings, messages: [{ role: "user", content }] }));
  },

  async image() {
    const content = [
      { type: "text", text: "Who is the hero?" },
      { type: "file", mediaType: "image/png", data: PNG },
    ];
    const error = await generateText({ ...settings, messages: [{ role: "user", content }] }).catch((reason) => reason);
    return { ...failure(error), isInstance: ai.UnsupportedFunctionalityError.isInstance(error) };
  },

  async object() {
    const { output, usage, finishReason } = await generateText({
      ...free,
      prompt: "Describe the hero.",
      output: Output.object({ schema: hero }),
    });
    return { fits: hero.safeParse(output).success, output, finishReason, outputTokens: usage.outputTokens };
  },

  async streamedArray() {
    const result = streamText({
      ...free,
      prompt: "Name them.",
      output: Output.array({ element: z.enum(["fox", "king"]) }),
      maxOutputTokens: 60,
    });
    const elements = [];
    for await (const element of result.elementStream) elements.push(element);
    return { elements, finish: await result.finishReason };
  },

  async choice() {
    const { output } = await generateText({
      ...free,
      prompt: "Who?",
      output: Output.choice({ options: ["fox", "king"] }),
    });
    return output;
  },

  async json() {
    const { output } = await generateText({ ...settings, prompt: "Who? As JSON.", output: Output.json() });
    return output;
  },

  async demandedTool() {
    const tools = { weather, clock: tool({ inputSchema: z.object({}), execute: async () => "noon" }) };
    const demanded = await generateText({
      ...free,
      prompt: "What?",
      tools,
      toolChoice: { type: "tool", toolName: "weather" },
    });
    const required = await generateText({ ...free, prompt: "What?", tools, toolChoice: "required" });
    return {
      demanded: demanded.toolCalls.map(({ toolName, input }) => ({
        toolName,
        fits: ["Oslo", "Rome"].includes(input.city),
      })),
      required: required.toolCalls.length > 0 && required.toolCalls.every(({ toolName }) => toolName in tools),
      finish: required.finishReason,
    };
  },

  async embedMany() {
    const values = Array.from({ length: 2050 }, (_, index) => `fox ${index % 5}`);
    const { embeddings, usage } = await ai.embedMany({
      model: provider.embeddingModel("story"),
      values,
      maxRetries: 0,
    });
    return {
      count: embeddings.length,
      dimensions: embeddings[0].length,
      tokens: usage.tokens,
      same: ai.cosineSimilarity(embeddings[0], embeddings[2045]),
      other: ai.cosineSimilarity(embeddings[0], embeddings[1]),
    };
  },

  async abortedEmbedding() {
    const ending = new AbortController();
    const values = Array.from({ length: 500 }, (_, index) => `${LONG} ${index}`);
    const embedding = ai.embedMany({
      model: provider.embeddingModel("watched"),
      values,
      abortSignal: ending.signal,
      maxRetries: 0,
    });
    while (watched.statistics().running === 0) await new Promise((resolve) => setTimeout(resolve, 1));
    ending.abort();
    return { ...(await failed(embedding)), running: watched.statistics().running };
  },

  async abortedText() {
    const ending = new AbortController();
    const generating = generateText({
      ...free,
      model: provider("watched"),
      prompt: "Tell a long story.",
      abortSignal: ending.signal,
      providerOptions: { rocmforge: { ignoreEndOfGeneration: true } },
    });
    while (watched.statistics().running === 0) await new Promise((resolve) => setTimeout(resolve, 1));
    ending.abort();
    return { ...(await failed(generating)), running: watched.statistics().running };
  },

  async abortedStream() {
    const ending = new AbortController();
    const result = streamText({
      ...free,
      model: provider("watched"),
      prompt: "Tell a long story.",
      abortSignal: ending.signal,
      providerOptions: { rocmforge: { ignoreEndOfGeneration: true } },
    });
    const types = new Set();
    for await (const { type } of result.fullStream) {
      types.add(type);
      if (type === "text-delta") ending.abort();
    }
    return { types: [...types], running: watched.statistics().running };
  },

  async overlong() {
    const prompt = "fox ".repeat(6000);
    const result = streamText({ ...settings, prompt, onError() {} });
    const errors = [];
    for await (const part of result.fullStream) if (part.type === "error") errors.push(failure(part.error));
    return { whole: await failed(generateText({ ...settings, prompt })), errors };
  },

  async unknown() {
    try {
      provider("stories");
    } catch (error) {
      return { ...failure(error), isInstance: ai.NoSuchModelError.isInstance(error), modelType: error.modelType };
    }
  },

  async missingFile() {
    return await failed(generateText({ ...free, model: provider("missing"), prompt: "Who?" }));
  },

  async registry() {
    const registry = ai.createProviderRegistry({ local: provider });
    const { text } = await generateText({
      model: registry.languageModel("local:scripted"),
      prompt: "Who is the hero?",
    });
    return text;
  },

  async warnings() {
    const { warnings } = await generateText({
      ...settings,
      prompt: "Who is the hero?",
      tools: { search: { type: "provider", id: "other.search", name: "search", args: {}, inputSchema: z.object({}) } },
    });
    return warnings;
  },
};

const outcomes = {};
for (const [name, run] of Object.entries(SCENARIOS)) {
  try {
    outcomes[name] = await run();
  } catch (error) {
    outcomes[name] = { error: String(error?.stack ?? error) };
  }
}
await provider.dispose();
outcomes.disposed = await failed((async () => await generateText({ ...free, prompt: "Who?" }))());
outcomes.stillOpen = await model.chat([{ role: "user", content: "Who is the hero?" }]).then(({ text }) => text);
await Promise.all([model.dispose(), watched.dispose()]);
console.log(JSON.stringify(outcomes, undefined, 1));
