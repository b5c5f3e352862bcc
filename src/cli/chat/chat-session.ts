// The conversation: reads a message or a command, answers it, and keeps the turns. A failure is reported; on a terminal
// the conversation continues, over a pipe it ends, because the next message was written for an answer.

import { ContextError, RocmForgeError } from "../../errors.js";
import type { CompletionSummary } from "../../engine/serving.js";
import { countOf, formatCount, printable } from "../format.js";
import { expandHome } from "../home-path.js";
import { messageFor } from "../option-words.js";
import { AnswerView } from "./answer-view.js";
import { ChatStatistics } from "./chat-statistics.js";
import type { ChatConsole } from "./console.js";
import { Conversation } from "./conversation.js";
import type { Message } from "./message-assembly.js";
import { loadConversation, saveConversation } from "./saved-conversation.js";
import { commandList, isCommand, parseCommand, type SlashCommand, unescapeMessage } from "./slash-command.js";
import type { PreparedPrompt, Speaker } from "./speaker.js";

/** Tokens reserved for another answer: this many, or a share of a small context. */
const ANSWER_ROOM_TOKENS = 512;
const ANSWER_ROOM_SHARE = 4;

const NOT_ANSWERED = "stopped before the answer started; the message is not part of the conversation";

/** A progress indicator that is shown until the first text arrives. */
export interface Waiting extends Disposable {
  end(): void;
}

interface ChatSessionOptions {
  readonly console: ChatConsole;
  readonly speaker: Speaker;
  readonly system: string | undefined;
  /** Drops the oldest turns without asking if the context is full. */
  readonly trim: boolean;
  readonly wait: (what: string) => Waiting;
}

/** Runs one conversation between a console and a model. */
export class ChatSession {
  readonly #console: ChatConsole;
  readonly #speaker: Speaker;
  readonly #trim: boolean;
  readonly #wait: (what: string) => Waiting;
  readonly #conversation: Conversation;
  readonly #statistics = new ChatStatistics();
  #usedTokens: number | undefined;
  #attempt = 0;

  constructor({ console, speaker, system, trim, wait }: ChatSessionOptions) {
    this.#console = console;
    this.#speaker = speaker;
    this.#trim = trim;
    this.#wait = wait;
    this.#conversation = new Conversation(system);
  }

  /** Runs until the user quits or the input ends. */
  async run(): Promise<void> {
    for (;;) {
      try {
        const message = await this.#console.next();
        if (message === undefined || (await this.#take(message)) === "leave") return;
      } catch (error) {
        if (!this.#console.isInteractive || !(error instanceof RocmForgeError)) throw error;
        this.#console.note(printable(messageFor(error, "chat"), "line-breaks"));
      }
    }
  }

  async #take({ text, verbatim }: Message): Promise<"leave" | "stay"> {
    if (!verbatim && isCommand(text)) return await this.#obey(parseCommand(text));
    this.#attempt = 0;
    await this.#reply(verbatim ? text : unescapeMessage(text));
    return "stay";
  }

  async #obey({ name, argument }: SlashCommand): Promise<"leave" | "stay"> {
    const conversation = this.#conversation;
    switch (name) {
      case "help":
        await this.#console.write(commandList());
        break;
      case "system":
        await this.#obeySystem(argument);
        break;
      case "reset":
        conversation.reset();
        this.#usedTokens = undefined;
        this.#console.note("started a new conversation");
        break;
      case "regenerate":
        await this.#regenerate();
        break;
      case "stats":
        await this.#console.write(
          this.#statistics.describe(conversation.turns.length, this.#usedTokens, this.#speaker.contextTokens),
        );
        break;
      case "save":
        await saveConversation(expandHome(argument), conversation, this.#speaker.modelName);
        this.#console.note(`${countOf(conversation.turns.length, "turn")} saved to ${printable(argument)}`);
        break;
      case "load":
        conversation.replace(await loadConversation(expandHome(argument)));
        this.#usedTokens = undefined;
        this.#console.note(`${countOf(conversation.turns.length, "turn")} loaded from ${printable(argument)}`);
        break;
      case "quit":
        return "leave";
      default:
        name satisfies never;
    }
    return "stay";
  }

  async #obeySystem(argument: string): Promise<void> {
    const conversation = this.#conversation;
    if (argument === "") {
      await this.#console.write(
        conversation.system === undefined
          ? "there is no system prompt\n"
          : `${printable(conversation.system, "layout")}\n`,
      );
      return;
    }
    conversation.system = argument === '""' ? undefined : argument;
    this.#console.note(
      conversation.system === undefined
        ? "the system prompt is removed"
        : "the system prompt is set; /reset starts a new conversation with it",
    );
  }

  async #regenerate(): Promise<void> {
    const turn = this.#conversation.takeLast();
    if (turn === undefined) {
      this.#console.note("there is no answer to regenerate");
      return;
    }
    this.#attempt++;
    let isAnswered = false;
    try {
      isAnswered = await this.#reply(turn.message);
    } finally {
      if (!isAnswered) this.#conversation.add(turn);
    }
  }

  /** Returns whether there is a new turn. */
  async #reply(message: string): Promise<boolean> {
    return await this.#console.whileAnswering(async (signal) => {
      try {
        const prompt = await this.#prepare(message, signal);
        return prompt !== undefined && (await this.#answer(message, prompt, signal));
      } catch (error) {
        // An answer that is stopped before the model starts fails, in different ways.
        if (!signal.aborted) throw error;
        this.#console.note(NOT_ANSWERED);
        return false;
      }
    });
  }

  async #answer(message: string, prompt: PreparedPrompt, signal: AbortSignal): Promise<boolean> {
    const view = new AnswerView(this.#console.look, (text) => this.#console.write(text));
    const parts: string[] = [];
    const maxTokens = this.#answerLimit(prompt.tokens);
    const answer = prompt.answer({ attempt: this.#attempt, signal, ...(maxTokens === undefined ? {} : { maxTokens }) });
    try {
      using waiting = this.#wait("prefilling the prompt");
      for await (const delta of answer.deltas) {
        waiting.end();
        if (delta.kind === "text") parts.push(delta.text);
        await view.push(delta);
      }
    } catch (error) {
      // Notes about the answer start on a new line, in their own style.
      if (view.isBegun) await view.end();
      throw error;
    }
    await view.end();
    const summary = await answer.summary;
    const text = parts.join("");
    const reason = summary.choices[0]?.reason;
    if (reason === "abort" && text === "") {
      this.#console.note(NOT_ANSWERED);
      return false;
    }
    this.#conversation.add({ message, answer: text });
    this.#statistics.add(summary);
    this.#usedTokens = summary.promptTokens + summary.generatedTokens;
    if (reason === "abort") this.#console.note("stopped; the answer so far stays part of the conversation");
    if (reason === "length") this.#console.note(this.#cutOff(summary, maxTokens));
    return true;
  }

  /**
   * Over a pipe no user can agree to drop turns, and a model that does not end its answers would leave no room for the
   * next message: an answer then leaves some room, but at most half of what remains. --tokens and --trim take
   * precedence.
   */
  #answerLimit(promptTokens: number): number | undefined {
    const { contextTokens, maxAnswerTokens } = this.#speaker;
    if (this.#console.isInteractive || this.#trim || maxAnswerTokens !== undefined) return undefined;
    const left = contextTokens - promptTokens;
    return Math.max(1, left - Math.min(answerRoom(contextTokens), Math.floor(left / 2)));
  }

  #cutOff({ promptTokens, generatedTokens }: CompletionSummary, maxTokens: number | undefined): string {
    const { contextTokens } = this.#speaker;
    if (maxTokens === generatedTokens)
      return `the answer was cut off after ${countOf(generatedTokens, "token")}, to leave room for the next message; --tokens or --trim allow more`;
    if (promptTokens + generatedTokens < contextTokens)
      return `the answer was cut off after ${countOf(generatedTokens, "token")}, the limit set by --tokens`;
    return `the answer was cut off: the context of ${countOf(contextTokens, "token")} is full`;
  }

  /** A prompt that fits, with the oldest turns dropped if the user agrees; undefined if not. */
  async #prepare(message: string, signal: AbortSignal): Promise<PreparedPrompt | undefined> {
    const whole = await this.#render(message, 0, signal);
    const { contextTokens, maxAnswerTokens } = this.#speaker;
    const room = Math.min(answerRoom(contextTokens), maxAnswerTokens ?? contextTokens);
    const overflows = whole.tokens >= contextTokens;
    if (!overflows && (!this.#trim || whole.tokens + room <= contextTokens)) return whole;
    const trimmed = await this.#shortest(message, contextTokens - room, signal);
    if (trimmed === undefined || trimmed.prompt.tokens >= contextTokens) {
      if (overflows)
        throw overflow(
          trimmed?.prompt.tokens ?? whole.tokens,
          contextTokens,
          "the message alone is too long; shorten it",
        );
      return whole;
    }
    // Dropping all turns does not help if the prompt still does not fit.
    if (!overflows && trimmed.prompt.tokens + room > contextTokens) return whole;
    const what = `the oldest ${countOf(trimmed.dropped, "turn")}`;
    if (!this.#trim && !(await this.#agrees(whole.tokens, what))) {
      if (this.#console.isInteractive) return undefined;
      throw overflow(whole.tokens, contextTokens, "--trim drops the oldest turns");
    }
    this.#conversation.dropOldest(trimmed.dropped);
    if (this.#trim) this.#console.note(`dropped ${what} to make room in the context`);
    return trimmed.prompt;
  }

  async #agrees(tokens: number, what: string): Promise<boolean> {
    const { contextTokens } = this.#speaker;
    this.#console.note(
      `the conversation has ${countOf(tokens, "token")} and the context holds ${formatCount(contextTokens)}`,
    );
    if (await this.#console.agrees(`drop ${what}?`)) return true;
    if (this.#console.isInteractive)
      this.#console.note(
        "the message was not sent; /reset starts a new conversation, and /save writes this one to a file",
      );
    return false;
  }

  /** The prompt with the fewest turns dropped that has at most this many tokens; without any turns if none fits. */
  async #shortest(
    message: string,
    tokens: number,
    signal: AbortSignal,
  ): Promise<{ readonly prompt: PreparedPrompt; readonly dropped: number } | undefined> {
    let [few, many] = [0, this.#conversation.turns.length];
    if (many === 0) return undefined;
    let best = { prompt: await this.#render(message, many, signal), dropped: many };
    // Fewer turns never make a longer prompt.
    while (many - few > 1) {
      const dropped = Math.floor((few + many) / 2);
      const prompt = await this.#render(message, dropped, signal);
      if (prompt.tokens <= tokens) [many, best] = [dropped, { prompt, dropped }];
      else few = dropped;
    }
    return best;
  }

  async #render(message: string, dropped: number, signal: AbortSignal): Promise<PreparedPrompt> {
    return await this.#speaker.prepare(this.#conversation.messages(message, dropped), signal);
  }
}

function answerRoom(contextTokens: number): number {
  return Math.min(ANSWER_ROOM_TOKENS, Math.ceil(contextTokens / ANSWER_ROOM_SHARE));
}

function overflow(tokens: number, contextTokens: number, advice: string): ContextError {
  return new ContextError(
    "CONTEXT_OVERFLOW",
    `[chat] expected fewer than ${countOf(contextTokens, "token")}, the context length, found ${formatCount(tokens)}; ${advice}, or set a larger context with --ctx`,
    { details: { tokens, contextTokens } },
  );
}
