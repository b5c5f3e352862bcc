// Ollama's client against a server, as its users call it: a question, a call, its result and the answer. Prints what came
// of each conversation (JSON). Argument: the server's address.

import { Ollama } from "ollama";

const [, , url] = process.argv;
const client = new Ollama({ host: url });
const city = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const tools = [
  { type: "function", function: { name: "weather", description: "The weather in a city", parameters: city } },
];
const place = {
  type: "object",
  properties: { city: { type: "string" }, rain: { type: "boolean" } },
  required: ["city", "rain"],
  additionalProperties: false,
};

/** One message, joined from its chunks if it is streamed. */
async function reply(request, stream) {
  if (!stream) return (await client.chat(request)).message;
  const message = { role: "assistant", content: "", thinking: "" };
  for await (const chunk of await client.chat({ ...request, stream: true })) {
    message.content += chunk.message.content;
    message.thinking += chunk.message.thinking ?? "";
    if (chunk.message.tool_calls !== undefined)
      message.tool_calls = [...(message.tool_calls ?? []), ...chunk.message.tool_calls];
  }
  return message;
}

async function talk(name, { stream, formed }) {
  const messages = [{ role: "user", content: `Question ${name}: what is the weather?` }];
  const request = { model: "local-model", messages, tools, ...(formed ? { format: place } : {}) };
  const call = await reply(request, stream);
  messages.push(call);
  for (const { function: asked } of call.tool_calls ?? [])
    messages.push({ role: "tool", tool_name: asked.name, content: `It rains in ${asked.arguments.city}.` });
  const answer = await reply(request, stream);
  return {
    calls: (call.tool_calls ?? []).map(({ function: asked }) => asked.name),
    text: answer.content,
    reasoning: [call.thinking, answer.thinking],
  };
}

const told = {};
for (const stream of [false, true]) {
  for (const formed of [false, true]) {
    const name = `${stream ? "streamed" : "whole"}-${formed ? "formed" : "free"}`;
    try {
      told[name] = await talk(name, { stream, formed });
    } catch (error) {
      told[name] = { error: String(error?.stack ?? error) };
    }
  }
}
console.log(JSON.stringify(told));
