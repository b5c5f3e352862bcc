// LangChain's chat model against a server, as its users call it: a question, a call, its result and the answer, through
// both of OpenAI's APIs. Prints what came of each conversation (JSON). Argument: the server's address.

import { HumanMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { ChatOpenAI } from "@langchain/openai";
import { z } from "zod";

const [, , url] = process.argv;
const weather = tool(({ city }) => `It rains in ${city}.`, {
  name: "weather",
  description: "The weather in a city",
  schema: z.object({ city: z.string() }),
});

/** One message, joined from its chunks if it is streamed. */
async function reply(chat, messages, stream) {
  if (!stream) return await chat.invoke(messages);
  let whole;
  for await (const chunk of await chat.stream(messages)) whole = whole === undefined ? chunk : whole.concat(chunk);
  return whole;
}

async function talk(name, { stream, useResponsesApi }) {
  const configuration = { baseURL: `${url}/v1` };
  const chat = new ChatOpenAI({ model: "local-model", apiKey: "none", configuration, maxRetries: 0, useResponsesApi });
  const withTools = chat.bindTools([weather]);
  const messages = [new HumanMessage(`Question ${name}: what is the weather?`)];
  const call = await reply(withTools, messages, stream);
  messages.push(call);
  for (const asked of call.tool_calls) messages.push(await weather.invoke(asked));
  const answer = await reply(withTools, messages, stream);
  return { calls: call.tool_calls.map(({ name: called, args }) => [called, args]), text: answer.text };
}

const told = {};
for (const useResponsesApi of [false, true]) {
  for (const stream of [false, true]) {
    const name = `${useResponsesApi ? "responses" : "chat"}-${stream ? "streamed" : "whole"}`;
    try {
      told[name] = await talk(name, { stream, useResponsesApi });
    } catch (error) {
      told[name] = { error: String(error?.stack ?? error) };
    }
  }
}
console.log(JSON.stringify(told));
