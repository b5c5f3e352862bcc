// Ollama's client as its users call it.

import { Ollama } from "ollama";
import { z } from "zod";
import {
  failureOf,
  fits,
  Hero,
  lengthOf,
  LONG_TOKENS,
  MODEL as model,
  QUESTION,
  tell,
  TOKENS,
  url,
} from "./outcomes.mjs";

const client = new Ollama({ host: url });
const messages = [{ role: "user", content: QUESTION }];
const greedy = { model, messages, options: { temperature: 0, num_predict: TOKENS } };

await tell({
  async models() {
    const { models } = await client.list();
    const { capabilities } = await client.show({ model });
    const { version } = await client.version();
    return { names: models.map(({ name }) => name), capabilities, version: /^\d+\.\d+\.\d+$/.test(version) };
  },
  async chat() {
    const { message, done_reason: finish, eval_count: tokens } = await client.chat(greedy);
    return { text: message.content, finish, tokens };
  },
  async streamedChat() {
    let text = "";
    let deltas = 0;
    let last;
    for await (last of await client.chat({ ...greedy, stream: true })) {
      text += last.message.content;
      deltas++;
    }
    return { text, deltas, finish: last.done_reason, tokens: last.eval_count };
  },
  async structuredOutput() {
    const { message } = await client.chat({ model, messages, format: z.toJSONSchema(Hero) });
    return fits(Hero, JSON.parse(message.content));
  },
  async completion() {
    const { response } = await client.generate({
      model,
      prompt: "Once upon a",
      raw: true,
      options: { temperature: 0, num_predict: 8 },
    });
    return response;
  },
  async embeddings() {
    const { embeddings } = await client.embed({ model, input: ["the fox", "the king"] });
    return { lengths: embeddings.map(lengthOf) };
  },
  async abort() {
    const stream = await client.chat({
      ...greedy,
      options: { temperature: 0, num_predict: LONG_TOKENS },
      stream: true,
    });
    const read = async () => {
      for await (const _ of stream) stream.abort();
    };
    return await failureOf(read());
  },
  image: () =>
    failureOf(client.chat({ model, messages: [{ role: "user", content: "What is it?", images: ["AAAA"] }] })),
  create: () => failureOf(client.create({ model: "other", from: model })),
});
