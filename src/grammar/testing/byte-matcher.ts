// Whether a grammar accepts a text, asked of its automaton byte by byte: without threads or a tokenizer. The recognizer that
// checks finished texts has to say the same.

import { compileGrammar } from "../compile-grammar.js";
import { recognizes } from "../automaton/recognizer.js";
import type { GrammarSpec } from "../grammar-spec.js";

export class ByteMatcher {
  /** A question: does it accept the whole text? */
  async compile(spec: GrammarSpec): Promise<(text: string) => Promise<boolean>> {
    const grammar = compileGrammar(spec);
    return async (text) => {
      const bytes = Buffer.from(text);
      const accepted = grammar.automaton.walk(grammar.automaton.start, bytes)?.accepting ?? false;
      if (recognizes(grammar, bytes) !== accepted)
        throw new Error(`automaton and recognizer differ over ${JSON.stringify(text)}`);
      return accepted;
    };
  }
}
