// OpenAI's Agents SDK against a server, as its users call it. Prints what came of each conversation (JSON).
// Argument: the server's address.

import { Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, run, setTracingDisabled, tool } from "@openai/agents";
import OpenAI from "openai";
import { z } from "zod";

setTracingDisabled(true);
const [, , url] = process.argv;
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none-needed", maxRetries: 0 });
const MODELS = {
  responses: new OpenAIResponsesModel(client, "local-model"),
  chat: new OpenAIChatCompletionsModel(client, "local-model"),
};

const weather = tool({
  name: "weather",
  description: "The weather in a city",
  parameters: z.object({ city: z.string() }),
  execute: async ({ city }) => `It rains in ${city}.`,
});
const outputType = z.object({ city: z.string(), rain: z.boolean() });

async function talk(model, name, { stream, formed }) {
  const agent = new Agent({
    name: "helper",
    instructions: "Answer briefly.",
    model,
    tools: [weather],
    ...(formed ? { outputType } : {}),
  });
  const question = `Question ${name}: what is the weather?`;
  const result = await run(agent, question, { stream, maxTurns: 4 });
  if (stream) {
    for await (const _ of result);
    await result.completed;
  }
  const told = { output: result.finalOutput, items: result.newItems.map(({ type }) => type) };
  if (!name.startsWith("responses") || stream) return told;
  const again = await run(agent, `Question ${name} again: and now?`, {
    previousResponseId: result.lastResponseId,
    maxTurns: 4,
  });
  return { ...told, again: again.finalOutput };
}

const told = {};
for (const [provider, model] of Object.entries(MODELS)) {
  for (const stream of [false, true]) {
    for (const formed of [false, true]) {
      const name = `${provider}-${stream ? "streamed" : "whole"}-${formed ? "formed" : "free"}`;
      try {
        told[name] = await talk(model, name, { stream, formed });
      } catch (error) {
        told[name] = { error: String(error?.stack ?? error) };
      }
    }
  }
}
console.log(JSON.stringify(told));
