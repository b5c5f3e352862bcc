// The AI SDK with each provider that speaks an API of this server, as its users call them.

import { createAnthropic } from "ai-sdk-anthropic-4";
import { createOpenAI } from "ai-sdk-openai-4";
import { createOpenAICompatible } from "ai-sdk-openai-compatible-3";
import { embedMany, generateText, Output, stepCountIs, streamText, tool } from "ai-7";
import {
  failureOf,
  fits,
  Hero,
  lengthOf,
  LONG_TOKENS,
  MODEL,
  Place,
  QUESTION,
  tell,
  TOKENS,
  url,
} from "./outcomes.mjs";

// Else it speaks of them on standard output.
globalThis.AI_SDK_LOG_WARNINGS = false;
const baseURL = `${url}/v1`;
const openai = createOpenAI({ baseURL, apiKey: "none" });
const anthropic = createAnthropic({ baseURL, apiKey: "none" });
const compatible = createOpenAICompatible({
  name: "rocmforge",
  baseURL,
  supportsStructuredOutputs: true,
  includeUsage: true,
});

const MODELS = {
  responses: openai(MODEL),
  chat: openai.chat(MODEL),
  anthropic: anthropic(MODEL),
  compatible: compatible(MODEL),
};
const EMBEDDERS = { openai: openai.embedding(MODEL), compatible: compatible.embeddingModel(MODEL) };

async function toolCall(model) {
  const asked = [];
  const weather = tool({
    description: "The weather in a city",
    inputSchema: Place,
    execute: async (input) => asked.push(input) && "It rains.",
  });
  const { steps, text } = await generateText({
    model,
    prompt: "What is the weather?",
    tools: { weather },
    maxOutputTokens: 60,
    maxRetries: 0,
    stopWhen: stepCountIs(2),
    prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? "required" : "none" }),
  });
  return {
    fits: asked.length === 1 && fits(Place, asked[0]),
    finishes: steps.map(({ finishReason }) => finishReason),
    answered: text.length > 0,
  };
}

async function abort(model) {
  const aborting = new AbortController();
  const { fullStream } = streamText({
    model,
    prompt: QUESTION,
    temperature: 0,
    maxOutputTokens: LONG_TOKENS,
    abortSignal: aborting.signal,
  });
  const types = [];
  for await (const { type } of fullStream) {
    if (type === "text-delta") aborting.abort();
    types.push(type);
  }
  return types.at(-1);
}

function scenariosOf(model) {
  const greedy = { model, prompt: QUESTION, temperature: 0, maxOutputTokens: TOKENS, maxRetries: 0 };
  return {
    async chat() {
      const { text, finishReason: finish, usage } = await generateText(greedy);
      return { text, finish, tokens: usage.outputTokens };
    },
    async streamedChat() {
      const result = streamText(greedy);
      let text = "";
      let deltas = 0;
      for await (const delta of result.textStream) {
        text += delta;
        deltas++;
      }
      return { text, deltas, finish: await result.finishReason, tokens: (await result.usage).outputTokens };
    },
    toolCall: () => toolCall(model),
    async structuredOutput() {
      const { output } = await generateText({
        model,
        prompt: QUESTION,
        output: Output.object({ schema: Hero }),
        maxRetries: 0,
      });
      return fits(Hero, output);
    },
    abort: () => abort(model),
    image: () => {
      const content = [
        { type: "file", mediaType: "image/png", data: new Uint8Array([137, 80, 78, 71, 13, 10, 26, 10]) },
      ];
      return failureOf(generateText({ model, messages: [{ role: "user", content }], maxRetries: 0 }));
    },
  };
}

const scenarios = Object.entries(MODELS).flatMap(([api, model]) =>
  Object.entries(scenariosOf(model)).map(([name, scenario]) => [`${api}-${name}`, scenario]),
);
const embeddings = Object.entries(EMBEDDERS).map(([api, model]) => [
  `${api}-embeddings`,
  async () => {
    const { embeddings: vectors, usage } = await embedMany({ model, values: ["the fox", "the king"], maxRetries: 0 });
    return { lengths: vectors.map(lengthOf), tokens: usage.tokens };
  },
]);
await tell(Object.fromEntries([...scenarios, ...embeddings]));
