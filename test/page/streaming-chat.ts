// A chat format for tests of the page: reasoning between <think> tags and the text behind it stream as they are generated,
// and `<call name {…}>` is a tool call.

import type { ChatConversation, ChatDelta, ChatParser } from "../../src/chat/message.js";
import { FakeChat } from "../../src/server/testing/fake-services.js";

export class StreamingChat extends FakeChat {
  override async render(model: unknown, conversation: ChatConversation) {
    return { ...(await super.render(model, conversation)), createParser: () => new StreamingParser() };
  }
}

const OPEN = "<think>";
const CLOSE = "</think>";
const CALL = /^<call (?<name>\w+) (?<text>\{[^]*?\})>/;

class StreamingParser implements ChatParser {
  #held = "";
  #isThinking = false;
  #calls = 0;

  push(text: string): readonly ChatDelta[] {
    this.#held += text;
    return [...this.#complete()];
  }

  end(): readonly ChatDelta[] {
    const rest = this.#held;
    this.#held = "";
    return rest === "" ? [] : [{ kind: "text", text: rest }];
  }

  *#complete(): Generator<ChatDelta, void, undefined> {
    for (;;) {
      const mark = this.#held.indexOf("<");
      const plain = mark === -1 ? this.#held : this.#held.slice(0, mark);
      this.#held = this.#held.slice(plain.length);
      if (plain !== "") yield { kind: this.#isThinking ? "reasoning" : "text", text: plain };
      const call = CALL.exec(this.#held)?.groups;
      if (this.#held.startsWith(OPEN)) this.#skip(OPEN, true);
      else if (this.#held.startsWith(CLOSE)) this.#skip(CLOSE, false);
      else if (call !== undefined) yield* this.#call(call["name"], call["text"]);
      else if (this.#held !== "" && !isBeginning(this.#held)) {
        yield { kind: "text", text: "<" };
        this.#held = this.#held.slice(1);
      } else return;
    }
  }

  #skip(tag: string, isThinking: boolean): void {
    this.#held = this.#held.slice(tag.length);
    this.#isThinking = isThinking;
  }

  *#call(name: string, text: string): Generator<ChatDelta, void, undefined> {
    this.#held = this.#held.replace(CALL, "");
    const index = this.#calls++;
    yield { kind: "call", index, id: `call_${index}`, name };
    yield { kind: "arguments", index, text };
    yield { kind: "call-end", index };
  }
}

/** Whether more text could make it a mark. */
function isBeginning(text: string): boolean {
  return [OPEN, CLOSE].some((tag) => tag.startsWith(text)) || "<call ".startsWith(text) || text.startsWith("<call ");
}
