// A chat with a tool: the model requests a call, the program runs it and returns the result.
//   node tools.ts [model.gguf]

import { embeddedModelPath, loadModel, Session, type Tool } from "rocmforge";

await using model = await loadModel(process.argv[2] ?? embeddedModelPath());

const tools: Tool[] = [
  {
    name: "weather",
    description: "The weather in a town",
    parameters: { type: "object", properties: { town: { enum: ["Oslo", "Rome"] } }, required: ["town"] },
  },
];
const weather = { Oslo: "snow, -4 °C", Rome: "sun, 18 °C" };

const session = model.session({ system: "Answer in one sentence.", chat: { tools, seed: 1, maxTokens: 60 } });
// "auto", the default, lets the model decide whether to call a tool.
const { toolCalls } = await session.say("What is the weather like?", { toolChoice: "required" }).result;

const results = toolCalls.map((call) => {
  const { town } = call.input as { town: keyof typeof weather };
  console.log(`${call.name}(${town}) → ${weather[town]}`);
  return Session.toolResult(call, weather[town]);
});
for await (const event of session.say(results, { toolChoice: "none" })) {
  if (event.type === "text") process.stdout.write(event.text);
}
process.stdout.write("\n");
