// LangChain's models for OpenAI's API as its users call them.

import { tool } from "@langchain/core/tools";
import { HumanMessage, ToolMessage } from "@langchain/core/messages";
import { ChatOpenAI, OpenAI, OpenAIEmbeddings } from "@langchain/openai";
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

const settings = { model, apiKey: "none", configuration: { baseURL: `${url}/v1` }, maxRetries: 0 };
const greedy = new ChatOpenAI({ ...settings, temperature: 0, maxTokens: TOKENS });
const free = new ChatOpenAI(settings);
const weather = tool(({ city }) => `It rains in ${city}.`, {
  name: "weather",
  description: "The weather in a city",
  schema: Place,
});

async function streamed(chat) {
  let text = "";
  let deltas = 0;
  let whole;
  for await (const chunk of await chat.stream(QUESTION)) {
    text += chunk.text;
    deltas++;
    whole = whole === undefined ? chunk : whole.concat(chunk);
  }
  return { text, deltas, tokens: whole.usage_metadata?.output_tokens };
}

await tell({
  async chat() {
    const { text, response_metadata: metadata, usage_metadata: usage } = await greedy.invoke(QUESTION);
    return { text, finish: metadata.finish_reason, tokens: usage.output_tokens };
  },
  streamedChat: () => streamed(greedy),
  async batch() {
    const answers = await greedy.batch([QUESTION, QUESTION]);
    return answers.map(({ text }) => text);
  },
  async toolCall() {
    const question = new HumanMessage("What is the weather?");
    const call = await free.bindTools([weather], { tool_choice: "required" }).invoke([question]);
    const [asked] = call.tool_calls;
    const result = await weather.invoke(asked);
    const answer = await greedy.bindTools([weather], { tool_choice: "none" }).invoke([question, call, result]);
    return {
      name: asked.name,
      fits: fits(Place, asked.args),
      isResult: ToolMessage.isInstance(result),
      answered: answer.text.length > 0,
    };
  },
  async structuredOutput() {
    const methods = ["jsonSchema", "functionCalling"];
    const heroes = await Promise.all(
      methods.map((method) => free.withStructuredOutput(Hero, { method }).invoke(QUESTION)),
    );
    return heroes.every((hero) => fits(Hero, hero));
  },
  async rawBesideParsed() {
    const { raw, parsed } = await free
      .withStructuredOutput(Hero, { method: "jsonSchema", strict: true, includeRaw: true })
      .invoke(QUESTION);
    return fits(Hero, parsed) && fits(Hero, JSON.parse(raw.text));
  },
  async completion() {
    return await new OpenAI({ ...settings, temperature: 0, maxTokens: 8 }).invoke("Once upon a");
  },
  async responses() {
    const chat = new ChatOpenAI({ ...settings, temperature: 0, maxTokens: TOKENS, useResponsesApi: true });
    const whole = await chat.invoke(QUESTION);
    const next = await chat.invoke("And then?", { previous_response_id: whole.response_metadata.id });
    const hero = await new ChatOpenAI({ ...settings, useResponsesApi: true })
      .withStructuredOutput(Hero)
      .invoke(QUESTION);
    return {
      text: whole.text,
      streamed: (await streamed(chat)).text,
      longer: next.usage_metadata.input_tokens > whole.usage_metadata.input_tokens + TOKENS,
      fits: fits(Hero, hero),
    };
  },
  async embeddings() {
    const embeddings = new OpenAIEmbeddings(settings);
    const vectors = await embeddings.embedDocuments(["the fox", "the king"]);
    const query = await embeddings.embedQuery("the fox");
    return {
      lengths: vectors.map(lengthOf),
      same: vectors[0].every((value, index) => Math.abs(value - query[index]) < 1e-3),
    };
  },
  async abort() {
    const aborting = new AbortController();
    const read = async () => {
      const chat = new ChatOpenAI({ ...settings, temperature: 0, maxTokens: LONG_TOKENS });
      for await (const _ of await chat.stream(QUESTION, { signal: aborting.signal })) aborting.abort();
    };
    return await failureOf(read());
  },
  image: () => {
    const image_url = { url: "data:image/png;base64,AAAA" };
    return failureOf(free.invoke([new HumanMessage({ content: [{ type: "image_url", image_url }] })]));
  },
});
