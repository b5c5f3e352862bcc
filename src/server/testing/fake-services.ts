// A chat format and a grammar without templates and worker threads. Each message is rendered as `role: content`; in the
// reply, `<think>…</think>` is reasoning and `[name {…}]` is a call, cut anywhere.

import type { ChatConversation, ChatDelta, ChatParser } from "../../chat/message.js";
import { ChatError, GrammarError } from "../../errors.js";
import type { TokenConstraint } from "../../engine/serving.js";
import type { GrammarSpec } from "../../grammar/grammar-spec.js";
import type { ChatRenderService, GrammarService } from "../../completion/services.js";

/** Renders chats without a template and records them. */
export class FakeChat implements ChatRenderService {
  readonly conversations: ChatConversation[] = [];
  /** As with a model that reasons. */
  hidesText = false;
  /** Whether white space at the start of a reply is dropped. */
  dropsSpace = false;

  async render(_: unknown, conversation: ChatConversation) {
    this.conversations.push(conversation);
    if (conversation.messages.some(({ content }) => content === "endless"))
      throw new ChatError("CHAT_LIMIT", "[chat] the template took too long");
    const { messages, tools, toolChoice } = conversation;
    const called = toolChoice.kind === "named" ? tools.filter(({ name }) => name === toolChoice.name) : tools;
    const prompt = `${messages.map(({ role, content }) => `${role}: ${content}`).join("\n")}\nassistant:`;
    const isFormed = conversation.constrained && toolChoice.kind !== "none";
    return {
      prompt,
      segments: [{ text: prompt, parseSpecial: true }],
      // A next turn has another last character.
      nextTurn:
        conversation.showsNextTurn === true ? [{ text: `${prompt.slice(0, -1)};`, parseSpecial: true }] : undefined,
      addSpecial: true,
      stop: ["<end>"],
      printedTokens: new Set([300]),
      callForms: isFormed
        ? called.map(({ name, parameters }) => ({ prefix: `[${name} `, schema: parameters, suffix: "]" }))
        : [],
      callSeries: undefined,
      thought: undefined,
      answerForm: { prefix: "", suffix: "" },
      hidesText: this.hidesText,
      createParser: (): ChatParser => new FakeParser(this.dropsSpace),
    };
  }
}

/** Holds back marked text until it is complete: the deltas depend on the cuts, and joined they do not. */
class FakeParser implements ChatParser {
  #held = "";
  #calls = 0;
  #dropsSpace: boolean;

  constructor(dropsSpace: boolean) {
    this.#dropsSpace = dropsSpace;
  }

  push(text: string): readonly ChatDelta[] {
    this.#held += this.#dropsSpace ? text.trimStart() : text;
    if (this.#held !== "") this.#dropsSpace = false;
    if (/^(?:<|\[)/.test(this.#held)) return [...this.#marked()];
    const mark = this.#held.search(/[<[]/);
    const plain = mark === -1 ? this.#held : this.#held.slice(0, mark);
    this.#held = this.#held.slice(plain.length);
    return plain === "" ? [] : [{ kind: "text", text: plain }, ...this.#marked()];
  }

  end(): readonly ChatDelta[] {
    const rest = this.#held;
    this.#held = "";
    return rest === "" ? [] : [{ kind: "text", text: rest }];
  }

  *#marked(): Generator<ChatDelta, void, undefined> {
    const thought = /^<think>(.*?)<\/think>/s.exec(this.#held);
    const call = /^\[(\w+) (\{.*?\})\]/s.exec(this.#held);
    if (thought !== null) {
      this.#held = this.#held.slice(thought[0].length);
      yield { kind: "reasoning", text: thought[1] as string };
    } else if (call !== null) {
      this.#held = this.#held.slice(call[0].length);
      const index = this.#calls++;
      yield { kind: "call", index, id: `call_${index}`, name: call[1] as string };
      yield { kind: "arguments", index, text: call[2] as string };
      yield { kind: "call-end", index };
    }
  }
}

/** Makes constraints that allow everything, and counts those that are open. */
export class FakeGrammar implements GrammarService {
  readonly specs: GrammarSpec[] = [];
  /** Number of constraints that have not been disposed. */
  open = 0;

  async constraint(_: unknown, spec: GrammarSpec): Promise<TokenConstraint> {
    if (spec.kind === "regex" && /^\(+$/.test(spec.pattern))
      throw new GrammarError("GRAMMAR_INVALID", "[grammar] the expression is not closed");
    this.specs.push(spec);
    return this.#constraint();
  }

  #constraint(): TokenConstraint {
    this.open++;
    let disposed = false;
    return {
      allowed: async () => undefined,
      accept: () => {},
      fork: () => this.#constraint(),
      [Symbol.dispose]: () => {
        if (!disposed) this.open--;
        disposed = true;
      },
    };
  }
}
