// OpenAI's SDK in its newest major, which needs Node 22, as its users call it.

import OpenAI from "openai";
import { zodFunction, zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import {
  failureOf,
  fits,
  Hero,
  lengthOf,
  LONG_TOKENS,
  MODEL as model,
  Place,
  QUESTION,
  tell,
  TOKENS,
  url,
} from "./outcomes.mjs";

const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 });
const messages = [{ role: "user", content: QUESTION }];
const greedy = { model, messages, temperature: 0, max_completion_tokens: TOKENS };
const tools = [zodFunction({ name: "weather", parameters: Place, description: "The weather in a city" })];

await tell({
  async models() {
    const ids = [];
    for await (const { id } of client.models.list()) ids.push(id);
    return ids;
  },
  async chat() {
    const { choices, usage } = await client.chat.completions.create(greedy);
    return { text: choices[0].message.content, finish: choices[0].finish_reason, tokens: usage.completion_tokens };
  },
  async streamedChat() {
    const stream = client.chat.completions.stream({ ...greedy, stream_options: { include_usage: true } });
    let text = "";
    let deltas = 0;
    stream.on("content", (delta) => (text += delta) && deltas++);
    const { choices, usage } = await stream.finalChatCompletion();
    return { text, deltas, finish: choices[0].finish_reason, tokens: usage.completion_tokens };
  },
  async toolCall() {
    const { choices } = await client.chat.completions.parse({ model, messages, tools, tool_choice: "required" });
    const [call] = choices[0].message.tool_calls;
    return {
      name: call.function.name,
      fits: fits(Place, call.function.parsed_arguments),
      finish: choices[0].finish_reason,
    };
  },
  /** The helper that calls the functions itself, and sends their results. */
  async toolRunner() {
    const asked = [];
    const weather = {
      name: "weather",
      parse: (text) => Place.parse(JSON.parse(text)),
      parameters: tools[0].function.parameters,
    };
    const runner = client.chat.completions.runTools({
      model,
      messages,
      stream: true,
      tools: [{ type: "function", function: { ...weather, function: ({ city }) => asked.push(city) && "It rains." } }],
      tool_choice: { type: "function", function: { name: "weather" } },
    });
    await runner.done();
    return { asked: asked.length, roles: runner.messages.map(({ role }) => role) };
  },
  async structuredOutput() {
    const response_format = zodResponseFormat(Hero, "hero");
    const { choices } = await client.chat.completions.parse({ model, messages, response_format });
    return fits(Hero, choices[0].message.parsed);
  },
  async completion() {
    const { choices } = await client.completions.create({
      model,
      prompt: "Once upon a",
      temperature: 0,
      max_tokens: 8,
    });
    return choices[0].text;
  },
  async embeddings() {
    const input = ["the fox", "the king"];
    const packed = await client.embeddings.create({ model, input });
    const floats = await client.embeddings.create({ model, input, encoding_format: "float" });
    return {
      lengths: packed.data.map(({ embedding }) => lengthOf(embedding)),
      same: packed.data.every(({ embedding }, at) =>
        embedding.every((value, i) => Math.abs(value - floats.data[at].embedding[i]) < 1e-6),
      ),
    };
  },
  async responses() {
    const request = { model, input: QUESTION, temperature: 0, max_output_tokens: TOKENS };
    const whole = await client.responses.create(request);
    const streamed = await client.responses.stream(request).finalResponse();
    const next = await client.responses.create({ ...request, input: "And then?", previous_response_id: whole.id });
    return {
      same: whole.output_text === streamed.output_text && whole.output_text.length > 20,
      previous: next.previous_response_id === whole.id,
      longer: next.usage.input_tokens > whole.usage.input_tokens + TOKENS,
      kept: (await client.responses.retrieve(whole.id)).output_text === whole.output_text,
      inputItems: (await client.responses.inputItems.list(next.id)).data.length,
      deleted: (await failureOf(client.responses.delete(whole.id).then(() => client.responses.retrieve(whole.id))))
        .status,
    };
  },
  async parsedResponse() {
    const { output_parsed: hero } = await client.responses.parse({
      model,
      input: QUESTION,
      text: { format: zodTextFormat(Hero, "hero") },
    });
    return fits(Hero, hero);
  },
  async abort() {
    const stream = await client.chat.completions.create({
      ...greedy,
      max_completion_tokens: LONG_TOKENS,
      stream: true,
    });
    let chunks = 0;
    for await (const _ of stream) if (++chunks === 5) stream.controller.abort();
    return chunks < LONG_TOKENS / 2;
  },
  notServed: () => failureOf(client.models.retrieve("none")),
  image: () => {
    const image_url = { url: "data:image/png;base64,AAAA" };
    return failureOf(
      client.chat.completions.create({
        model,
        messages: [{ role: "user", content: [{ type: "image_url", image_url }] }],
      }),
    );
  },
  files: () => failureOf(client.files.list()),
});
