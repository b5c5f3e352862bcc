// Answers with stop strings in the text that the client sees, read at once and late.

import { expect, test } from "vitest";
import { ChatOutputParser } from "../chat/output/output-parser.js";
import { DeltaStream } from "../engine/delta-stream.js";
import type { ChatEvent } from "./chat-event.js";
import { ChoiceReader } from "./choice-reader.js";

const TOOLS = [{ name: "search", parameters: {} }];
const CALL = `<tool_call>{"name": "search", "arguments": {}}</tool_call>`;

interface Told {
  readonly text: string;
  readonly logprobs: number;
  readonly calls: number;
  readonly ending: ChoiceReader["ending"];
  readonly generatedTokens: number;
}

function told(reader: ChoiceReader, events: readonly ChatEvent[]): Told {
  let text = "";
  let logprobs = 0;
  for (const event of events) {
    if (event.type !== "text") continue;
    text += event.text;
    logprobs += event.tokens.length;
  }
  return {
    text,
    logprobs,
    calls: events.filter(({ type }) => type === "tool-call").length,
    ending: reader.ending,
    generatedTokens: reader.generatedTokens,
  };
}

/** One token for each text. `atOnce`: what is written is read before more is. */
async function read(texts: readonly string[], stops: readonly string[], atOnce: boolean): Promise<Told> {
  const parser = new ChatOutputParser({
    convention: "tagged-json",
    tools: TOOLS,
    reasoning: undefined,
    reasoningOpen: false,
    stops,
  });
  const reader = new ChoiceReader({
    choice: 0,
    parser,
    stops: { requested: stops, inText: true },
    tokenText: (token) => texts[token] ?? "",
    keepsLogprobs: true,
  });
  const stream = new DeltaStream();
  const events: ChatEvent[] = [];
  const readNext = async (): Promise<void> => {
    const { value } = await stream.next();
    if (value !== undefined && reader.ending === undefined) events.push(...reader.read(value));
  };
  for (const [token, text] of texts.entries()) {
    stream.push(0, text, [token], [{ token, logprob: -1, top: [] }]);
    if (atOnce) await readNext();
  }
  stream.push(0, "", [], [], { reason: "length", generatedTokens: texts.length });
  await readNext();
  return told(reader, events);
}

test("nothing after a stop string is reported or counted, however late it is read", async () => {
  const texts = ["ab", " ST", "OP", " secret", ...Array.from({ length: 46 }, () => " tail")];
  const expected = { text: "ab ", logprobs: 3, calls: 0, ending: { reason: "stop", stop: "STOP" }, generatedTokens: 3 };
  expect(await read(texts, ["STOP"], true)).toEqual(expected);
  expect(await read(texts, ["STOP"], false)).toEqual(expected);
});

test("an answer without a stop string is the same however late it is read", async () => {
  const texts = ["a", "S", "T", CALL, "O", "P", "!"];
  const expected = {
    text: "aSTOP!",
    logprobs: 7,
    calls: 1,
    ending: { reason: "length", stop: undefined },
    generatedTokens: 7,
  };
  expect(await read(texts, ["STOP"], true)).toEqual(expected);
  expect(await read(texts, ["STOP"], false)).toEqual(expected);
});

test.each([
  ["\n", ["Hi", "\n", "\n", "\n"], "Hi", 2],
  ["\n\n", ["Hi", "\n", " \n", "\n", "\n"], "Hi\n ", 4],
  ["i.\n ", ["H", "i", ".", "\n", " ", " "], "H", 5],
  ["\n", ["Hi", "\n", CALL], "Hi", 2],
  ["\n", ["\n", "Hi"], "", 1],
])(
  "white space that completes %j ends the answer although a call may follow",
  async (stop, texts, text, generatedTokens) => {
    for (const atOnce of [true, false])
      expect(await read(texts, [stop], atOnce)).toMatchObject({
        text,
        generatedTokens,
        calls: 0,
        ending: { reason: "stop", stop },
      });
    // Cut otherwise, the text is the same.
    expect(await read([texts.join("")], [stop], true)).toMatchObject({
      text,
      calls: 0,
      ending: { reason: "stop", stop },
    });
  },
);

test.each([
  ["is not told before a call where it completes none", ["Hi", "\n", CALL], "Hi", 1],
  ["after a call is nobody's", [CALL, "\n\n\n", CALL, "\n\n", "So"], "So", 2],
])("white space %s", async (_what, texts, text, calls) => {
  expect(await read(texts, ["\n\n"], true)).toMatchObject({ text, calls, ending: { reason: "length" } });
});
