// The conversation with a model that repeats its prompt: what it is asked shows in what it answers.

import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { TemporaryFolder } from "../../../test/support/temporary-folder.js";
import { BackendError } from "../../errors.js";
import type { CompletionSummary, ChoiceFinishReason } from "../../engine/serving.js";
import type { AnswerDelta } from "./answer-view.js";
import { ChatSession } from "./chat-session.js";
import type { ChatConsole } from "./console.js";
import type { SpokenMessage } from "./conversation.js";
import type { AnswerOptions, Speaker } from "./speaker.js";

/** A token is a character; the answer names its try and its prompt's messages. */
class Echo implements Speaker {
  readonly modelName = "echo";
  readonly prompts: string[] = [];
  readonly limits: (number | undefined)[] = [];
  reason: ChoiceFinishReason = "stop";
  failure: Error | undefined;
  /** Of an answer that has begun. */
  lateFailure: Error | undefined;
  reasoning = "";
  /** Told before each delta. */
  onDelta: () => void = () => {};

  constructor(
    readonly contextTokens = 1000,
    readonly maxAnswerTokens: number | undefined = undefined,
  ) {}

  async prepare(messages: readonly SpokenMessage[]) {
    if (this.failure !== undefined) throw this.failure;
    const prompt = messages.map(({ role, content }) => `${role[0]}:${content}`).join("|");
    return {
      tokens: prompt.length,
      answer: ({ attempt, signal, maxTokens }: AnswerOptions) => {
        this.prompts.push(prompt);
        this.limits.push(maxTokens);
        const text = `re${attempt} ${messages.at(-1)?.content}`;
        let settle: (summary: CompletionSummary) => void = () => {};
        const summary = new Promise<CompletionSummary>((resolve) => (settle = resolve));
        return { deltas: this.#deltas(prompt, text, signal, settle), summary };
      },
    };
  }

  async *#deltas(
    prompt: string,
    text: string,
    signal: AbortSignal,
    settle: (summary: CompletionSummary) => void,
  ): AsyncGenerator<AnswerDelta> {
    if (this.reasoning !== "") yield { kind: "reasoning", text: this.reasoning };
    let written = 0;
    for (const delta of text.split(/(?<= )/)) {
      this.onDelta();
      if (signal.aborted) break;
      if (written > 0 && this.lateFailure !== undefined) throw this.lateFailure;
      yield { kind: "text", text: delta };
      written += delta.length;
    }
    settle(summaryOf(prompt.length, written, signal.aborted ? "abort" : this.reason));
  }
}

function summaryOf(promptTokens: number, generatedTokens: number, reason: ChoiceFinishReason): CompletionSummary {
  const times = {
    queuedMs: 0,
    promptMs: 1,
    timeToFirstTokenMs: 1,
    tokensPerSecond: 10,
    preemptions: 0,
    draftedTokens: 0,
    acceptedTokens: 0,
  };
  return { choices: [{ reason, generatedTokens }], promptTokens, cachedTokens: 3, generatedTokens, seed: 7, ...times };
}

class Script implements ChatConsole {
  readonly look = { reasoning: "marked", isTerminal: false } as const;
  readonly notes: string[] = [];
  readonly questions: string[] = [];
  written = "";
  readonly #lines: string[];
  stop = new AbortController();

  constructor(
    lines: readonly string[],
    readonly isInteractive: boolean,
    readonly isAgreeable = false,
  ) {
    this.#lines = [...lines];
  }

  async next() {
    const text = this.#lines.shift();
    return text === undefined ? undefined : { text, verbatim: text.startsWith("verbatim") };
  }

  async agrees(question: string) {
    this.questions.push(question);
    return this.isAgreeable;
  }

  async whileAnswering<Result>(work: (signal: AbortSignal) => Promise<Result>): Promise<Result> {
    this.stop = new AbortController();
    return await work(this.stop.signal);
  }

  async write(text: string) {
    this.written += text;
  }

  note(text: string) {
    this.notes.push(text);
  }

  [Symbol.dispose]() {}
}

interface Talk {
  readonly speaker?: Echo;
  readonly isInteractive?: boolean;
  readonly isAgreeable?: boolean;
  readonly trim?: boolean;
  readonly system?: string;
  readonly onDelta?: (console: Script) => void;
}

async function talk(
  lines: readonly string[],
  { speaker = new Echo(), isInteractive = true, isAgreeable = false, trim = false, system, onDelta }: Talk = {},
) {
  const console = new Script(lines, isInteractive, isAgreeable);
  speaker.onDelta = () => onDelta?.(console);
  const waiting = { end() {}, [Symbol.dispose]() {} };
  await new ChatSession({ console, speaker, system, trim, wait: () => waiting }).run();
  return { console, prompts: speaker.prompts, written: console.written, notes: console.notes };
}

describe("a conversation", () => {
  it("goes on from what was said", async () => {
    const { written, prompts } = await talk(["one", "two"], { system: "be kind" });
    expect(written).toBe("re0 one\nre0 two\n");
    expect(prompts).toEqual(["s:be kind|u:one", "s:be kind|u:one|a:re0 one|u:two"]);
  });

  it("leaves reasoning out of what was said", async () => {
    const speaker = new Echo();
    speaker.reasoning = "hmm";
    const { written, prompts } = await talk(["one", "two"], { speaker });
    expect(written).toContain("[thinking]\nhmm\n[answer]\n\nre0 one\n");
    expect(prompts[1]).toBe("u:one|a:re0 one|u:two");
  });

  it("obeys commands, and takes two slashes for one", async () => {
    const { prompts } = await talk([
      "/system be brief",
      "one",
      "/reset",
      "//two",
      "verbatim /three",
      '/system ""',
      "four",
      "/quit",
      "five",
    ]);
    expect(prompts).toEqual([
      "s:be brief|u:one",
      "s:be brief|u:/two",
      "s:be brief|u:/two|a:re0 /two|u:verbatim /three",
      "u:/two|a:re0 /two|u:verbatim /three|a:re0 verbatim /three|u:four",
    ]);
  });

  it("answers again, differently, and keeps the answer when the new one fails", async () => {
    const speaker = new Echo();
    const { prompts, notes } = await talk(["/regenerate", "one", "/regenerate", "/regenerate", "two"], { speaker });
    expect(notes).toEqual(["there is no answer to regenerate"]);
    expect(prompts).toEqual(["u:one", "u:one", "u:one", "u:one|a:re2 one|u:two"]);
  });

  it("tells about tokens and the context", async () => {
    const { written } = await talk(["/stats", "one", "/stats"]);
    expect(written).toContain("last answer: none yet\nconversation: 0 turns\n");
    expect(written).toMatch(
      /last answer: 7 tokens .*prompt 5 tokens, 3 of them from the cache, reason stop, seed 7\nconversation: 1 turn, 12 of 1,000 tokens of the context/,
    );
    expect(written).toContain("session: 1 answer, 7 tokens written, 5 read, 3 of them from the cache\n");
  });

  it("is saved and loaded", async () => {
    using folder = new TemporaryFolder();
    const path = folder.file("my chat.json");
    await talk(["one", `/save ${path}`], { system: "be kind" });
    expect(JSON.parse(readFileSync(path, "utf8"))).toMatchObject({
      model: "echo",
      messages: [{ role: "system" }, { role: "user", content: "one" }, { role: "assistant" }],
    });
    const { prompts } = await talk([`/load ${path}`, "two"]);
    expect(prompts).toEqual(["s:be kind|u:one|a:re0 one|u:two"]);
  });
});

describe("an answer that is stopped", () => {
  async function stoppedAfter(deltas: number) {
    let left = deltas;
    return await talk(["one", "two"], {
      onDelta: (console) => {
        if (left-- === 0) console.stop.abort();
      },
    });
  }

  it("stays as far as it came", async () => {
    const { prompts, notes } = await stoppedAfter(1);
    expect(prompts[1]).toBe("u:one|a:re0 |u:two");
    expect(notes).toEqual(["stopped; the answer so far stays part of the conversation"]);
  });

  it("is as if never asked for when nothing came", async () => {
    const { prompts, notes } = await stoppedAfter(0);
    expect(prompts[1]).toBe("u:two");
    expect(notes[0]).toContain("not part of the conversation");
  });

  it("leaves room for the next message where nobody can be asked, unless somebody said otherwise", async () => {
    const limitsOf = async (options: Talk & { readonly speaker: Echo }): Promise<readonly (number | undefined)[]> => {
      await talk(["one", "two"], options);
      return options.speaker.limits;
    };
    // A prompt of 5, then of 21 characters: a quarter of the context stays, or half of what is left.
    expect(await limitsOf({ speaker: new Echo(100), isInteractive: false })).toEqual([100 - 5 - 25, 100 - 21 - 25]);
    expect(await limitsOf({ speaker: new Echo(40), isInteractive: false })).toEqual([40 - 5 - 10, 19 - 9]);
    expect(await limitsOf({ speaker: new Echo(10_000), isInteractive: false })).toEqual([
      10_000 - 5 - 512,
      10_000 - 21 - 512,
    ]);
    expect(await limitsOf({ speaker: new Echo(100, 7), isInteractive: false })).toEqual([undefined, undefined]);
    expect(await limitsOf({ speaker: new Echo(100), isInteractive: false, trim: true })).toEqual([
      undefined,
      undefined,
    ]);
    expect(await limitsOf({ speaker: new Echo(100), isInteractive: true })).toEqual([undefined, undefined]);
  });

  it("says why when the context or the limit ended it", async () => {
    const limited = new Echo(1000, 7);
    limited.reason = "length";
    expect((await talk(["one"], { speaker: limited })).notes).toEqual([
      "the answer was cut off after 7 tokens, the limit set by --tokens",
    ]);
    const full = new Echo(12);
    full.reason = "length";
    expect((await talk(["one"], { speaker: full })).notes).toEqual([
      "the answer was cut off: the context of 12 tokens is full",
    ]);
  });
});

describe("what goes wrong", () => {
  it("is told, and a conversation at a terminal goes on", async () => {
    const { prompts, notes } = await talk(["/nonsense", "/load none.json", "one"]);
    expect(notes).toEqual([expect.stringMatching(/^/), expect.stringMatching(/^/)]);
    expect(prompts).toEqual(["u:one"]);
  });

  it("ends the line of an answer that had begun", async () => {
    const speaker = new Echo();
    speaker.lateFailure = new BackendError("BACKEND_MEMORY", "[test] lost");
    const { written, notes, prompts } = await talk(["one", "two"], { speaker });
    expect([written, notes]).toEqual(["re0\nre0\n", ["[test] lost", "[test] lost"]]);
    expect(prompts).toEqual(["u:one", "u:two"]);
    speaker.failure = speaker.lateFailure;
    expect((await talk(["one"], { speaker })).written).toBe("");
  });

  it("ends a conversation over a pipe", async () => {
    await expect(talk(["/nonsense", "one"], { isInteractive: false })).rejects.toMatchObject({
      code: "OPTION_UNKNOWN",
    });
  });

  it("is never hidden when it is a mistake of ours", async () => {
    const speaker = new Echo();
    speaker.failure = new TypeError("oops");
    await expect(talk(["one"], { speaker })).rejects.toThrow("oops");
  });
});

describe("a full context", () => {
  const LINES = ["aaaa", "bbbb", "cccc"];
  /** Without the first turn it is 18 tokens shorter. */
  const THIRD = "u:aaaa|a:re0 aaaa|u:bbbb|a:re0 bbbb|u:cccc".length;

  it("drops turns only when asked and allowed", async () => {
    const refused = await talk(LINES, { speaker: new Echo(THIRD) });
    expect(refused.console.questions).toEqual(["drop the oldest 1 turn?"]);
    expect(refused.prompts).toHaveLength(2);
    expect(refused.notes.at(-1)).toContain("the message was not sent");
    const agreed = await talk(LINES, { speaker: new Echo(THIRD), isAgreeable: true });
    expect(agreed.prompts[2]).toBe("u:bbbb|a:re0 bbbb|u:cccc");
  });

  it("drops turns by itself with --trim, and leaves room for an answer", async () => {
    const { console, prompts, notes } = await talk(LINES, { speaker: new Echo(THIRD + 5), trim: true });
    expect([console.questions, prompts[2]]).toEqual([[], "u:bbbb|a:re0 bbbb|u:cccc"]);
    expect(notes).toEqual(["dropped the oldest 1 turn to make room in the context"]);
  });

  it("drops as many as it takes and no more", async () => {
    const lines = Array.from({ length: 20 }, (_, index) => `message${index % 10}`);
    const { prompts } = await talk(lines, { speaker: new Echo(200), trim: true });
    expect(prompts).toHaveLength(20);
    for (const prompt of prompts) expect(prompt.length).toBeLessThanOrEqual(150);
    // One more turn of 28 would not have fitted.
    for (const prompt of prompts.slice(7)) expect(prompt.length + 28).toBeGreaterThan(150);
  });

  it("ends a conversation over a pipe, with the numbers", async () => {
    await expect(talk(LINES, { speaker: new Echo(THIRD), isInteractive: false })).rejects.toThrow(
      new RegExp(`fewer than ${THIRD} tokens, the context length, found ${THIRD}; --trim`),
    );
  });

  it("refuses a message that is too long by itself", async () => {
    const { notes } = await talk(["aaaa", "b".repeat(60)], { speaker: new Echo(50), trim: true });
    expect(notes).toEqual([expect.stringMatching(/.*the message alone is too long/)]);
  });
});
