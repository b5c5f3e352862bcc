// What the chats of one open model share: threads that render templates, threads that compile grammars, and one that
// tokenizes long prompts. Their code is loaded, and the threads started, by the first chat.

import { ChatRenderer } from "../chat/chat-renderer.js";
import { ChatCompletions } from "../completion/chat-completions.js";
import { GrammarCompilers } from "../completion/grammar-compilers.js";
import { Tokenization } from "../completion/tokenization.js";

/** Owns the threads of a model's chats. */
export class ModelChats implements AsyncDisposable {
  readonly completions: ChatCompletions;
  readonly grammars: GrammarCompilers;
  readonly #parts: readonly AsyncDisposable[];

  constructor() {
    const renderer = new ChatRenderer();
    this.grammars = new GrammarCompilers();
    const { grammars } = this;
    const tokenization = new Tokenization();
    this.completions = new ChatCompletions({ renderer, grammars, tokenization });
    this.#parts = [renderer, grammars, tokenization];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#parts.map((part) => part[Symbol.asyncDispose]()));
  }
}
