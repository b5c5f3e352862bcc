// Checks whether a grammar accepts a text, byte by byte by its automaton, without threads or a tokenizer. The
// recognizer of finished texts has to agree.

import { compileGrammar } from "../compile-grammar.js";
import { recognizes } from "../automaton/recognizer.js";
import type { GrammarSpec } from "../grammar-spec.js";

/** Compiles grammars for tests that check whole texts without a tokenizer. */
export class ByteMatcher {
  /** A predicate that tells whether the grammar accepts a whole text. */
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
