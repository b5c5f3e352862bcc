// Inside a thread: what was asked for is read here, where it can take no more than the thread has; and there is one
// vocabulary, the grammars that were compiled for it, the texts that follow them. A grammar is first compiled for a
// vocabulary of nothing in a copy of the library that may die of it, so that the texts outlive what others ask for.

import { GrammarError } from "../errors.js";
import { answerCalls } from "../worker/answer-calls.js";
import { FollowedText } from "./followed-text.js";
import { type GrammarSource, type GrammarSpec, grammarSource } from "./grammar-spec.js";
import { type CompiledGrammar, type GrammarCompiler, GrammarLibrary, LibraryFailure, type TokenizerInfo } from "./library.js";
import type { PackedVocabulary } from "./packed-vocabulary.js";
import { neverAllowed, StringLengths, TokenLengths } from "./string-lengths.js";
import type { ConversionAnswer, FollowAnswer, FollowQuestion, GrammarAnswer, GrammarQuestion } from "./thread-message.js";

interface KnownGrammar {
  readonly compiled: CompiledGrammar;
  readonly source: GrammarSource;
  readonly never: Uint32Array | undefined;
}

/** All that is lost when the library dies. */
interface Known {
  readonly library: GrammarLibrary;
  readonly vocabulary: PackedVocabulary;
  readonly compiler: GrammarCompiler;
  readonly grammars: Map<number, KnownGrammar>;
  readonly texts: Map<number, FollowedText>;
  lengths: TokenLengths | undefined;
}

/** The ones used last stay; texts that follow another keep it as long as they need it. */
const MAX_GRAMMARS = 64;

let known: Known | undefined;
let tester: GrammarLibrary | undefined;

async function answer(question: GrammarQuestion): Promise<GrammarAnswer> {
  for (const id of question.closed) closeText(id);
  return question.kind === "convert" ? convert(question.spec) : follow(question);
}

function convert(spec: GrammarSpec): ConversionAnswer {
  try {
    return { kind: "source", source: grammarSource(spec) };
  } catch (error) {
    if (!(error instanceof GrammarError)) throw error;
    const { code, message, details } = error;
    return { kind: "failed", code, message, details };
  }
}

async function follow(question: FollowQuestion): Promise<FollowAnswer> {
  const { vocabulary } = question;
  // Many may ask at once for what they lost, and the first one teaches it.
  const learns = vocabulary !== undefined && (known === undefined || question.alone);
  try {
    if (learns) known = await learn(vocabulary);
    if (known === undefined) return { kind: "need", what: "vocabulary" };
    return await followIn(known, question);
  } catch (error) {
    const lost = known?.library.failed === true ? known : undefined;
    if (lost !== undefined) known = undefined;
    if (!(error instanceof LibraryFailure)) throw error;
    // Others may have used up the memory: it gets a second chance, alone.
    const alone = learns || lost === undefined || [...lost.grammars.keys()].every((id) => id === question.grammar.id);
    if (error.limit && !alone) return { kind: "need", what: "room" };
    return { kind: error.limit ? "limit" : "invalid", reason: error.message };
  }
}

async function followIn(now: Known, { grammar: { id, source }, text }: FollowQuestion): Promise<FollowAnswer> {
  let grammar = now.grammars.get(id);
  if (grammar === undefined) {
    if (source === undefined) return { kind: "need", what: "grammar" };
    grammar = await compile(now, source);
  }
  keep(now, id, grammar);
  if (text === undefined) return begins(now, grammar);
  let followed = now.texts.get(text.id);
  if (followed === undefined || followed.position !== text.from) {
    if (text.from !== 0) return { kind: "need", what: "tokens" };
    closeText(text.id);
    followed = await open(now, grammar);
    now.texts.set(text.id, followed);
  }
  for (const token of text.tokens) if (!(await followed.accept(token))) return { kind: "refused", token };
  return (await followed.writeMask(text.mask)) ? { kind: "done" } : { kind: "invalid", reason: "no token of the vocabulary can follow" };
}

/** A grammar that no text can begin with is told of at once. */
async function begins(now: Known, grammar: KnownGrammar): Promise<FollowAnswer> {
  const text = await open(now, grammar);
  const some = await text.writeMask(new Uint32Array(Math.ceil(now.vocabulary.size / 32)));
  text.dispose();
  return some ? { kind: "done" } : { kind: "invalid", reason: "no token of the vocabulary can begin it" };
}

async function open(now: Known, { compiled, source, never }: KnownGrammar): Promise<FollowedText> {
  const matcher = await now.library.use(({ GrammarMatcher }) => GrammarMatcher.createGrammarMatcher(compiled));
  const lengths = never === undefined || now.lengths === undefined ? undefined : new StringLengths(now.lengths, source.lengthLimits, never);
  return new FollowedText(now.library, matcher, now.vocabulary, lengths);
}

async function learn(vocabulary: PackedVocabulary): Promise<Known> {
  const { size, offsets, bytes, endTokens } = vocabulary;
  const library = new GrammarLibrary();
  // The library takes bytes where it says text, and has no other way to say them.
  const tokens = Array.from({ length: size }, (_, token) => bytes.slice(offsets[token], offsets[token + 1])) as unknown as string[];
  const compiler = await library.use(async ({ GrammarCompiler: Compiler, TokenizerInfo: Info }) => {
    const info: TokenizerInfo = await Info.createTokenizerInfo(tokens, "raw", false, size, [...endTokens]);
    return Compiler.createGrammarCompiler(info, false);
  });
  return { library, vocabulary, compiler, grammars: new Map(), texts: new Map(), lengths: undefined };
}

async function compile(now: Known, source: GrammarSource): Promise<KnownGrammar> {
  await test(source.text);
  const compiled = await compileText(now.library, now.compiler, source.text);
  if (source.lengthLimits.length === 0) return { compiled, source, never: undefined };
  now.lengths ??= new TokenLengths(now.vocabulary);
  return { compiled, source, never: neverAllowed(now.lengths, source.lengthLimits) };
}

/** Where a copy that was used before fails of a limit, others may have brought it there: a new one tells. */
async function test(text: string): Promise<void> {
  const used = tester?.failed === false ? tester : undefined;
  tester = used ?? new GrammarLibrary();
  try {
    await testIn(tester, text);
  } catch (error) {
    if (used === undefined || !(error instanceof LibraryFailure && error.limit)) throw error;
    tester = new GrammarLibrary();
    await testIn(tester, text);
  }
}

async function testIn(library: GrammarLibrary, text: string): Promise<void> {
  const { compiler, info } = await library.use(async ({ GrammarCompiler: Compiler, TokenizerInfo: Info }) => {
    const nothing = await Info.createTokenizerInfo(["a", ""], "raw", false, 2, [1]);
    return { info: nothing, compiler: await Compiler.createGrammarCompiler(nothing, false) };
  });
  (await compileText(library, compiler, text)).dispose();
  compiler.dispose();
  info.dispose();
}

/** The library would do this in one call, and never free the grammar that it read. */
async function compileText(library: GrammarLibrary, compiler: GrammarCompiler, text: string): Promise<CompiledGrammar> {
  return library.use(async ({ Grammar }) => {
    const grammar = await Grammar.fromEBNF(text);
    const compiled = await compiler.compileGrammar(grammar);
    grammar.dispose();
    return compiled;
  });
}

/** As the one used last; the one that was not used for longest goes. */
function keep(now: Known, id: number, grammar: KnownGrammar): void {
  now.grammars.delete(id);
  now.grammars.set(id, grammar);
  if (now.grammars.size <= MAX_GRAMMARS) return;
  for (const [oldest, { compiled }] of now.grammars) {
    now.grammars.delete(oldest);
    compiled.dispose();
    return;
  }
}

function closeText(id: number): void {
  known?.texts.get(id)?.dispose();
  known?.texts.delete(id);
}

answerCalls(answer);
