import { describe, expect, it } from "vitest";
import type { ChatConversation } from "../../chat/message.js";
import type { Completion, CompletionRequest, CompletionSummary, ModelEngine } from "../../engine/serving.js";
import type { TextSegment } from "../../tokenizer/tokenizer.js";
import type { AnswerDelta } from "./answer-view.js";
import { ModelSpeaker } from "./model-speaker.js";

const SUMMARY = { promptTokens: 1, generatedTokens: 2, seed: 5 } as CompletionSummary;

function fakeModel(requests: CompletionRequest[]): ModelEngine {
  return {
    name: "fake",
    contextTokens: 100,
    tokenizer: {
      encodeSegments: ([{ text }]: readonly TextSegment[], { addSpecial }: { readonly addSpecial: boolean }) =>
        Int32Array.from({ length: text.length + Number(addSpecial) }),
    },
    complete(request: CompletionRequest): Completion {
      requests.push(request);
      async function* deltas() {
        for (const text of ["<hm>", "", "yes"]) yield { choice: 0, text, tokens: [], logprobs: [], atMs: 0 };
      }
      return {
        [Symbol.asyncIterator]: () => deltas()[Symbol.asyncIterator](),
        summary: Promise.resolve(SUMMARY),
        cachedTokens: 0,
        cancel() {},
      };
    },
  } as unknown as ModelEngine;
}

async function ask(seed: number | undefined, attempt: number) {
  const requests: CompletionRequest[] = [];
  const conversations: ChatConversation[] = [];
  const speaker = new ModelSpeaker({
    model: fakeModel(requests),
    render: async (conversation) => {
      conversations.push(conversation);
      return {
        segments: [{ text: "hello", parseSpecial: true }],
        addSpecial: true,
        stop: ["</s>"],
        printedTokens: new Set([3]),
        createParser: () => ({
          push: (text) => [text.startsWith("<") ? { kind: "reasoning", text } : { kind: "text", text }],
          end: () => [{ kind: "text", text: "!" }],
        }),
      };
    },
    sampling: seed === undefined ? { temperature: 0 } : { seed },
    maxAnswerTokens: 9,
    stop: ["END"],
  });
  const { signal } = new AbortController();
  const prompt = await speaker.prepare([{ role: "user", content: "hi" }], signal);
  const answer = prompt.answer({ attempt, signal });
  const deltas: AnswerDelta[] = [];
  for await (const delta of answer.deltas) deltas.push(delta);
  return {
    prompt,
    deltas,
    summary: await answer.summary,
    request: requests[0],
    conversation: conversations[0],
    signal,
  };
}

describe("a served model that answers", () => {
  it("is asked for what the template says, and read by its parser", async () => {
    const { prompt, deltas, summary, request, conversation, signal } = await ask(undefined, 0);
    expect(conversation).toMatchObject({ messages: [{ role: "user", content: "hi" }], tools: [] });
    expect(prompt.tokens).toBe(6);
    expect(request).toMatchObject({
      maxTokens: 9,
      stop: ["</s>", "END"],
      printedTokens: new Set([3]),
      sampling: { temperature: 0 },
    });
    expect(request.signal).toBe(signal);
    expect(deltas).toEqual([
      { kind: "reasoning", text: "<hm>" },
      { kind: "text", text: "yes" },
      { kind: "text", text: "!" },
    ]);
    expect(summary).toBe(SUMMARY);
  });

  it("draws another text for another try, with a seed that is told", async () => {
    expect((await ask(7, 0)).request.sampling).toEqual({ seed: 7 });
    expect((await ask(7, 2)).request.sampling).toEqual({ seed: 9 });
  });
});
