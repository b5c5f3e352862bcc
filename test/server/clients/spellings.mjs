// Forms that are asked for in other servers' words, through the AI SDK's provider for such servers, which passes fields on
// as they are. Prints the text of each answer, or the status that it failed with (JSON). Argument: the server's address.

import { generateText } from "ai-7";
import { createOpenAICompatible } from "ai-sdk-openai-compatible-3";

const [, , url] = process.argv;
const schema = {
  type: "object",
  properties: { city: { type: "string" }, rain: { type: "boolean" } },
  required: ["city", "rain"],
  additionalProperties: false,
};
const SPELLINGS = {
  response_format: { response_format: { type: "json_object", schema } },
  json_schema: { json_schema: schema },
  format: { format: schema },
  guided_json: { guided_json: schema },
  guided_regex: { guided_regex: String.raw`\{"city": "[A-Z][a-z]+", "rain": (true|false)\}` },
  guided_choice: { guided_choice: [`{"city": "Oslo", "rain": true}`, "none"] },
  structured_outputs: { structured_outputs: { json: schema } },
};

async function ask(name, fields, kind) {
  const provider = createOpenAICompatible({
    name: "rocmforge",
    baseURL: `${url}/v1`,
    transformRequestBody: (body) => ({ ...body, ...fields }),
  });
  try {
    const { text } = await generateText({
      model: provider("local-model"),
      prompt: `Spelling ${name}, ${kind}: what is the weather?`,
      maxRetries: 0,
    });
    return text;
  } catch (error) {
    return error?.statusCode ?? String(error);
  }
}

const told = {};
for (const [name, fields] of Object.entries(SPELLINGS))
  told[name] = [await ask(name, fields, "fitting"), await ask(name, fields, "unfitting")];
told.free = [await ask("free", {}, "unfitting")];
console.log(JSON.stringify(told));
