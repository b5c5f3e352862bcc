// Anthropic's SDK as its users call it.

import Anthropic from "@anthropic-ai/sdk";
import { betaZodTool } from "@anthropic-ai/sdk/helpers/beta/zod";
import { zodOutputFormat } from "@anthropic-ai/sdk/helpers/zod";
import { z } from "zod";
import { failureOf, fits, Hero, LONG_TOKENS, MODEL as model, Place, QUESTION, tell, TOKENS, url } from "./outcomes.mjs";

const client = new Anthropic({ baseURL: url, apiKey: "none", maxRetries: 0 });
const messages = [{ role: "user", content: QUESTION }];
const greedy = { model, messages, temperature: 0, max_tokens: TOKENS };
const tools = [{ name: "weather", description: "The weather in a city", input_schema: z.toJSONSchema(Place) }];

await tell({
  async models() {
    const ids = [];
    for await (const { id } of client.models.list()) ids.push(id);
    return ids;
  },
  async chat() {
    const { content, stop_reason: finish, usage } = await client.messages.create(greedy);
    return { text: content[0].text, finish, tokens: usage.output_tokens };
  },
  async streamedChat() {
    const stream = client.messages.stream(greedy);
    let text = "";
    let deltas = 0;
    stream.on("text", (delta) => (text += delta) && deltas++);
    const { stop_reason: finish, usage } = await stream.finalMessage();
    return { text, deltas, finish, tokens: usage.output_tokens };
  },
  async toolCall() {
    const { content, stop_reason: finish } = await client.messages.create({
      ...greedy,
      max_tokens: 100,
      tools,
      tool_choice: { type: "any" },
    });
    const call = content.find(({ type }) => type === "tool_use");
    return { name: call.name, fits: fits(Place, call.input), finish };
  },
  /** The helper that calls the tools itself, and sends their results. */
  async toolRunner() {
    const asked = [];
    const weather = betaZodTool({
      name: "weather",
      inputSchema: Place,
      description: "The weather in a city",
      run: ({ city }) => asked.push(city) && "It rains.",
    });
    const runner = client.beta.messages.toolRunner({
      ...greedy,
      max_tokens: 100,
      tools: [weather],
      tool_choice: { type: "any" },
      max_iterations: 2,
    });
    const { stop_reason: finish } = await runner;
    return { asked: asked.length, finish };
  },
  async structuredOutput() {
    const output_config = { format: zodOutputFormat(Hero) };
    const { parsed_output: hero } = await client.messages.parse({ ...greedy, max_tokens: 100, output_config });
    return fits(Hero, hero);
  },
  async countTokens() {
    const { input_tokens: counted } = await client.messages.countTokens({ model, messages });
    const { usage } = await client.messages.create({ ...greedy, max_tokens: 1 });
    return counted === usage.input_tokens + usage.cache_read_input_tokens;
  },
  async abort() {
    const stream = client.messages.stream({ ...greedy, max_tokens: LONG_TOKENS });
    stream.once("text", () => stream.abort());
    return await failureOf(stream.done());
  },
  notServed: () => failureOf(client.models.retrieve("none")),
  image: () => {
    const source = { type: "base64", media_type: "image/png", data: "AAAA" };
    return failureOf(
      client.messages.create({ ...greedy, messages: [{ role: "user", content: [{ type: "image", source }] }] }),
    );
  },
  thread: () => failureOf(client.beta.messages.thread(greedy).send()),
  batches: () => failureOf(client.messages.batches.list()),
});
