// OpenAI's Agents SDK as its users call it.

import { Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, run, setTracingDisabled, tool } from "@openai/agents";
import OpenAI from "openai";
import { failureOf, fits, Hero, LONG_TOKENS, MODEL, Place, QUESTION, tell, TOKENS, url } from "./outcomes.mjs";

setTracingDisabled(true);
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 });
const MODELS = {
  responses: new OpenAIResponsesModel(client, MODEL),
  chat: new OpenAIChatCompletionsModel(client, MODEL),
};
const greedy = { temperature: 0, maxTokens: TOKENS };

function agentOf(model, settings) {
  return new Agent({
    name: "teller",
    instructions: "You tell old stories.",
    model,
    modelSettings: greedy,
    ...settings,
  });
}

/** The text as it came, and the name of the error that ended it, if one did. */
async function streamed(agent) {
  const result = await run(agent, QUESTION, { stream: true });
  let text = "";
  const read = async () => {
    for await (const delta of result.toTextStream()) text += delta;
    await result.completed;
  };
  const { name } = await failureOf(read());
  return { text, error: name };
}

/** A call that is demanded, and its result. */
async function toolCall(model) {
  const asked = [];
  const weather = tool({
    name: "weather",
    description: "The weather in a city",
    parameters: Place,
    execute: async (input) => asked.push(input) && "It rains.",
  });
  const agent = agentOf(model, {
    tools: [weather],
    modelSettings: { toolChoice: "required" },
    toolUseBehavior: "stop_on_first_tool",
  });
  const { newItems, finalOutput } = await run(agent, "What is the weather?");
  return {
    fits: asked.length === 1 && fits(Place, asked[0]),
    items: newItems.map(({ type }) => type),
    output: finalOutput,
  };
}

async function abort(model) {
  const aborting = new AbortController();
  const agent = agentOf(model, { modelSettings: { temperature: 0, maxTokens: LONG_TOKENS } });
  const result = await run(agent, QUESTION, { stream: true, signal: aborting.signal });
  let deltas = 0;
  for await (const _ of result.toTextStream()) if (++deltas === 1) aborting.abort();
  await failureOf(result.completed);
  return deltas < LONG_TOKENS / 2;
}

function scenariosOf(model) {
  return {
    chat: () => failureOf(run(agentOf(model), QUESTION).then(({ finalOutput }) => finalOutput)),
    streamedChat: () => streamed(agentOf(model)),
    toolCall: () => toolCall(model),
    async structuredOutput() {
      const agent = agentOf(model, { outputType: Hero, modelSettings: {} });
      return fits(Hero, (await run(agent, QUESTION)).finalOutput);
    },
    abort: () => abort(model),
  };
}

const scenarios = Object.entries(MODELS).flatMap(([api, model]) =>
  Object.entries(scenariosOf(model)).map(([name, scenario]) => [`${api}-${name}`, scenario]),
);
await tell({
  ...Object.fromEntries(scenarios),
  async previousResponse() {
    const agent = agentOf(MODELS.responses, { outputType: Hero, modelSettings: {} });
    const first = await run(agent, QUESTION);
    const second = await run(agent, "And then?", { previousResponseId: first.lastResponseId });
    const [before, after] = [first, second].map(({ rawResponses }) => rawResponses[0].usage.inputTokens);
    return { fits: fits(Hero, second.finalOutput), longer: after > before };
  },
});
