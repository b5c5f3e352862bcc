// Extracts records from documents: one object for each text, held to a Zod schema while it is generated, so that every
// line of the output can be read back by the same schema. Documents are batched.
//   node extract.ts [model.gguf] < documents.txt        (one document in each line; without input, three samples)

import { text as readAll } from "node:stream/consumers";
import { embeddedModelPath, loadModel } from "rocmforge";
import { z } from "zod";

const SAMPLES = [
  "Order 4711: two brass lamps for Ms Berg in Oslo, to be paid on delivery.",
  "Mr Rossi of Rome returns one clock; it stopped after a day. He asks for his money.",
  "Could you tell me when the shop opens on Saturday?",
];

const Letter = z.object({
  kind: z.enum(["order", "return", "question"]),
  customer: z.string().max(30).nullable(),
  town: z.enum(["Oslo", "Rome"]).nullable(),
  items: z.array(z.object({ name: z.string().min(2).max(20), count: z.int().min(1).max(99) })).max(3),
});

const input = process.stdin.isTTY === true ? "" : await readAll(process.stdin);
const lines = input.split("\n").filter((line) => line.trim() !== "");
const documents = lines.length > 0 ? lines : SAMPLES;

await using model = await loadModel(process.argv[2] ?? embeddedModelPath());

const letters = await Promise.all(
  documents.map(async (document) => {
    const messages = [
      { role: "system" as const, content: "Extract the letter's contents. Use null for what it does not say." },
      { role: "user" as const, content: document },
    ];
    const { object, finishReason } = await model.chat(messages, { schema: Letter, temperature: 0, maxTokens: 300 });
    // Only an object that was cut off is missing.
    if (object === undefined) throw new Error(`no object for "${document}": ${finishReason}`);
    return object;
  }),
);
for (const letter of letters) console.log(JSON.stringify(letter));
