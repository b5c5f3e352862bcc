// Whether a grammar accepts a text, asked of the library itself byte by byte: without threads, a tokenizer or the lengths of
// strings, which are counted beside the rules.

import { type GrammarSpec, grammarSource } from "../grammar-spec.js";
import { type CompiledGrammar, GrammarLibrary } from "../library.js";

const BYTES = 256;

export class ByteMatcher {
  readonly #library = new GrammarLibrary();

  /** A question: does it accept the whole text? */
  async compile(spec: GrammarSpec): Promise<(text: string) => Promise<boolean>> {
    const { text: rules } = grammarSource(spec);
    const compiled = await this.#library.use(async ({ Grammar, GrammarCompiler, TokenizerInfo }) => {
      const tokens = [...Array.from({ length: BYTES }, (_, byte) => Uint8Array.of(byte)), ""] as unknown as string[];
      const info = await TokenizerInfo.createTokenizerInfo(tokens, "raw", false, BYTES + 1, [BYTES]);
      return (await GrammarCompiler.createGrammarCompiler(info, false)).compileGrammar(await Grammar.fromEBNF(rules));
    });
    return (text) => this.#accepts(compiled, text);
  }

  #accepts(compiled: CompiledGrammar, text: string): Promise<boolean> {
    return this.#library.use(async ({ GrammarMatcher }) => {
      const matcher = await GrammarMatcher.createGrammarMatcher(compiled);
      const accepted = [...Buffer.from(text)].every((byte) => matcher.acceptToken(byte)) && matcher.acceptToken(BYTES);
      matcher.dispose();
      return accepted;
    });
  }
}
