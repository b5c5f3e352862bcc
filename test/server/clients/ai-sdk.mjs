// The AI SDK against a server, in one of its majors, as its users call it. Prints what came of each conversation (JSON).
// Arguments: the server's address, the major (6 or 7).

// Else it speaks of them on standard output.
globalThis.AI_SDK_LOG_WARNINGS = false;
const [, , url, major] = process.argv;
const providers = { 6: { openai: 3, anthropic: 3, compatible: 2 }, 7: { openai: 4, anthropic: 4, compatible: 3 } }[
  major
];
const { generateText, streamText, Output, stepCountIs, tool } = await import(`ai-${major}`);
const { createOpenAI } = await import(`ai-sdk-openai-${providers.openai}`);
const { createAnthropic } = await import(`ai-sdk-anthropic-${providers.anthropic}`);
const { createOpenAICompatible } = await import(`ai-sdk-openai-compatible-${providers.compatible}`);
const { z } = await import("zod");

const openai = createOpenAI({ baseURL: `${url}/v1`, apiKey: "none-needed" });
const anthropic = createAnthropic({ baseURL: `${url}/v1`, apiKey: "none-needed" });
const compatible = createOpenAICompatible({ name: "rocmforge", baseURL: `${url}/v1`, supportsStructuredOutputs: true });
const plain = createOpenAICompatible({ name: "rocmforge", baseURL: `${url}/v1` });

const MODELS = {
  responses: openai("local-model"),
  chat: openai.chat("local-model"),
  anthropic: anthropic("claude-sonnet-4-5"),
  compatible: compatible("local-model"),
  "compatible-plain": plain("local-model"),
};

const weather = tool({
  description: "The weather in a city",
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => `It rains in ${city}.`,
});
const place = Output.object({ schema: z.object({ city: z.string(), rain: z.boolean() }) });

/** A question, a call, its result and the answer. */
async function talk(model, name, { stream, formed }) {
  const settings = {
    model,
    prompt: `Question ${name}: what is the weather?`,
    tools: { weather },
    stopWhen: stepCountIs(3),
    maxRetries: 0,
    ...(formed ? { output: place, experimental_output: place } : {}),
  };
  const result = stream ? streamText(settings) : await generateText(settings);
  if (stream) for await (const part of result.fullStream) if (part.type === "error") throw part.error;
  const steps = await result.steps;
  return {
    text: await result.text,
    steps: steps.length,
    results: steps.flatMap(({ toolResults }) => toolResults.map(({ output }) => output)),
    reasoning: steps.map(({ reasoningText }) => reasoningText ?? null),
    finish: await result.finishReason,
    usage: await result.usage,
    warnings: (await result.warnings) ?? [],
    ...(formed ? { output: await (result.output ?? result.experimental_output) } : {}),
  };
}

const told = {};
for (const [provider, model] of Object.entries(MODELS)) {
  for (const stream of [false, true]) {
    for (const formed of [false, true]) {
      const name = `${provider}-${stream ? "streamed" : "whole"}-${formed ? "formed" : "free"}`;
      try {
        told[name] = await talk(model, name, { stream, formed });
      } catch (error) {
        told[name] = {
          error: `${error?.name}: ${error?.message}`,
          body: error?.responseBody ?? String(error?.cause ?? ""),
        };
      }
    }
  }
}
console.log(JSON.stringify(told));
