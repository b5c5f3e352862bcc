// Grammars in their threads: regular expressions, grammars, forms of tool calls, the end of a text, forks, what happens
// to a text when its thread dies of another, and hostile grammars, after each of which the next one works.

import { afterAll, describe, expect, test } from "vitest";
import type { GrammarError } from "../../src/errors.js";
import type { TokenConstraint } from "../../src/engine/serving.js";
import type { GrammarConstraint } from "../../src/grammar/worker/grammar.js";
import { GrammarCompiler } from "../../src/grammar/worker/grammar-compiler.js";
import type { GrammarSpec } from "../../src/grammar/grammar-spec.js";
import { packVocabulary, type VocabularyTokenizer } from "../../src/grammar/automaton/packed-vocabulary.js";
import type { GrammarReply, GrammarRequest } from "../../src/grammar/worker/thread-message.js";
import { builtFile } from "../../src/worker/built-file.js";
import { LimitedWorker } from "../../src/worker/limited-worker.js";
import { Dice } from "../support/dice.js";
import { allowedTokens, drawText, embeddedTokenizer } from "./sampling.js";

const tokenizer = await embeddedTokenizer();
const compiler = new GrammarCompiler(tokenizer);
afterAll(() => compiler[Symbol.asyncDispose]());

/** Paths are followed to their end, however busy the machine is. */
const UNHURRIED = { pathMs: 60_000, maskDeadlineMs: 60_000 } as const;

const ends = [...tokenizer.endOfGeneration].sort((a, b) => a - b);
const tokensOf = (text: string): readonly number[] => [...tokenizer.encode(text, { addSpecial: false })];
const allowed = async (constraint: GrammarConstraint): Promise<readonly number[]> =>
  allowedTokens(await constraint.allowed(), tokenizer.vocabularySize);

/** Whether the grammar allows a text as the tokenizer writes it, and its end after it. */
async function accepts(spec: GrammarSpec, text: string): Promise<boolean> {
  const grammar = await compiler.compile(spec);
  using constraint = grammar.constraint();
  for (const token of tokensOf(text)) {
    if (!(await allowed(constraint)).includes(token)) return false;
    constraint.accept(token);
  }
  return (await allowed(constraint)).includes(ends[0] as number);
}

async function failure(promise: Promise<unknown>): Promise<GrammarError> {
  return promise.then(
    () => {
      throw new Error("it did not fail");
    },
    (error: unknown) => error as GrammarError,
  );
}

describe("regular expressions and grammars", () => {
  test.each([
    "[a-z]{3,5}\\d?",
    "(?:ab|c[0-9é])+\\.",
    "[^a-z\\s]{2,4}",
    "\\w+@\\w+\\.org",
    "[一-龥ぁ-ん]{1,4}|[à-ÿ]+",
    "(a+)+b",
    "😀?[\\u{1F600}-\\u{1F64F}]",
  ])("texts drawn from %s match it", async (pattern) => {
    const grammar = await compiler.compile({ kind: "regex", pattern });
    const dice = new Dice(11);
    for (let count = 0; count < 20; count++) {
      const { text } = await drawText(tokenizer, grammar, dice);
      expect(text).toMatch(new RegExp(`^(?:${pattern})$`, "u"));
    }
  });

  test("texts drawn from a grammar are its own", async () => {
    const text = `
      # a sum of numbers and names
      root ::= term (" + " term){0,3}
      term ::= number | name | "(" root ")"
      number ::= [0-9] | [1-9] [0-9]
      name ::= [^\\x00-\\x60\\x7b-\\U0010FFFF]+ | "é"`;
    const grammar = await compiler.compile({ kind: "grammar", text: text.replaceAll("\n      ", "\n") });
    const dice = new Dice(5);
    const sum = /^(?:\d|[1-9]\d|[a-z]+|é|\+| |\(|\))+$/;
    for (let count = 0; count < 20; count++) expect((await drawText(tokenizer, grammar, dice)).text).toMatch(sum);
  });

  test("what printers of JSON write on one line is accepted, and no line is begun", async () => {
    const value = { name: "Ada é", list: [1, -2.5e3, null, [], {}], deep: { a: { b: [true, '\\"\n\u0001'] } } };
    const python = JSON.stringify(value, null, 1).replaceAll(/\n */g, (_, at: number, whole: string) =>
      /[[{]/.test(whole[at - 1] as string) || /\n *[\]}]/.test(whole.slice(at, at + 20)) ? "" : " ",
    );
    for (const text of [JSON.stringify(value), python])
      expect({ text, accepted: await accepts({ kind: "json" }, text) }).toEqual({ text, accepted: true });
    for (const text of [JSON.stringify(value, null, 2), JSON.stringify(value, null, "\t"), '{"a":  1}', '{"a" :1}'])
      expect({ text, accepted: await accepts({ kind: "json" }, text) }).toEqual({ text, accepted: false });
    const schema = {
      type: "object",
      properties: { name: { type: "string", minLength: 3, maxLength: 5 }, n: { type: "number" } },
      required: ["name"],
    };
    for (const text of [
      '{"name":"Ada é"}',
      '{"name": "Ada", "n": 1}',
      '{ "name": "a\\u00e9\\ud83d\\ude00\\n", "n": -0.5 }',
    ]) {
      expect({ text, accepted: await accepts({ kind: "schema", schema }, text) }).toEqual({ text, accepted: true });
    }
    for (const text of [
      '{"name":"Ad"}',
      '{"name":"Ada Lo"}',
      '{"n":1}',
      '{"name":"Ada","x":1}',
      '{"name":"Ada"',
      '{"name":"a\\ud83d\\ude00"}',
    ]) {
      expect({ text, accepted: await accepts({ kind: "schema", schema }, text) }).toEqual({ text, accepted: false });
    }
  });
});

describe("lengths of strings", () => {
  const strings = (limits: object): GrammarSpec => ({ kind: "schema", schema: { type: "string", ...limits } });

  test("a character in two escapes is one, between them too", async () => {
    const bytes = letters([...'"\\ud83de0xyz'].filter((letter, index, all) => all.indexOf(letter) === index));
    await using other = new GrammarCompiler(bytes);
    const grammar = await other.compile(strings({ maxLength: 1 }));
    using constraint = grammar.constraint();
    for (const letter of '"\\ud83d\\ude00"') {
      const token = bytes.encode(letter)[0] as number;
      expect({
        letter,
        allowed: allowedTokens(await constraint.allowed(), bytes.vocabularySize).includes(token),
      }).toEqual({ letter, allowed: true });
      constraint.accept(token);
    }
    expect(allowedTokens(await constraint.allowed(), bytes.vocabularySize)).toEqual([...bytes.endOfGeneration]);
  });

  test("each half may stand in a token of its own, and both count once", async () => {
    for (const [text, limits, fits] of [
      ['"\\ud83d\\ude00"', { minLength: 1, maxLength: 1 }, true],
      ['"a\\ud83d\\ude00"', { maxLength: 1 }, false],
      ['"\\ud83d\\ude00a"', { maxLength: 2 }, true],
      ['"\\ud83d\\ude00\\ud83d\\ude00"', { minLength: 3 }, false],
    ] as const) {
      expect({ text, fits: await accepts(strings(limits), text) }).toEqual({ text, fits });
    }
  });
});

describe("a constraint", () => {
  const yes: GrammarSpec = { kind: "regex", pattern: "yes|no" };

  test("allows only the end after the end, and the end again", async () => {
    const grammar = await compiler.compile(yes);
    using constraint = grammar.constraint();
    for (const token of tokensOf("yes")) constraint.accept(token);
    expect(await allowed(constraint)).toEqual(ends);
    constraint.accept(ends[0] as number);
    expect(await allowed(constraint)).toEqual(ends);
    constraint.accept(ends[0] as number);
    expect(await allowed(constraint)).toEqual(ends);
  });

  test("gives the masks along a draft as far as it is allowed, those that it gives token by token", async () => {
    await using patient = new GrammarCompiler(tokenizer, UNHURRIED);
    const grammar = await patient.compile({ kind: "regex", pattern: "(yes|no), (yes|no)" });
    const right = tokensOf("yes, no");
    const wrong = tokensOf(" maybe");
    using constraint = grammar.constraint();
    using other = grammar.constraint();
    const { tokens, masks } = await constraint.allowedAlong([...right, ...wrong], right.length + wrong.length);
    expect(tokens.slice(0, right.length)).toEqual(right);
    expect(masks.length).toBe(tokens.length + 1);
    for (const [index, mask] of masks.entries()) {
      expect(allowedTokens(mask, tokenizer.vocabularySize)).toEqual(await allowed(other));
      if (index < tokens.length) other.accept(tokens[index] as number);
    }
    // The path was only looked at: the text is where it was.
    using fresh = grammar.constraint();
    expect(await allowed(constraint)).toEqual(await allowed(fresh));
  });

  test("follows tokens that are the only allowed ones, and no more than requested", async () => {
    const bytes = letters([..."abcxyz"]);
    await using single = new GrammarCompiler(bytes, UNHURRIED);
    const grammar = await single.compile({ kind: "regex", pattern: "abc[xy]abc" });
    const idOf = (letter: string): number => bytes.encode(letter, { addSpecial: false })[0] as number;
    const path = [..."abc"].map(idOf);
    using constraint = grammar.constraint();
    expect((await constraint.allowedAlong([], 8)).tokens).toEqual(path);
    expect((await constraint.allowedAlong([], 2)).tokens).toEqual(path.slice(0, 2));
    expect((await constraint.allowedAlong([...path, idOf("x")], 8)).tokens.slice(0, 7)).toEqual([
      ...path,
      idOf("x"),
      ...path,
    ]);
    expect((await constraint.allowedAlong([idOf("z")], 8)).tokens).toEqual(path);
  });

  test("follows no token once the time of a path is over, and gives the next mask all the same", async () => {
    const bytes = letters([..."abc"]);
    await using hurried = new GrammarCompiler(bytes, { pathMs: 0 });
    using constraint = (await hurried.compile({ kind: "regex", pattern: "abc" })).constraint();
    const { tokens, masks } = await constraint.allowedAlong([], 8);
    expect(tokens).toEqual([]);
    expect(masks.map((mask) => allowedTokens(mask, bytes.vocabularySize))).toEqual([
      [...bytes.encode("a", { addSpecial: false })],
    ]);
  });

  test("rejects a token that was not allowed, and stays so", async () => {
    const grammar = await compiler.compile(yes);
    using constraint = grammar.constraint();
    constraint.accept(tokensOf("x")[0] as number);
    for (let count = 0; count < 2; count++)
      expect(await failure(constraint.allowed())).toMatchObject({
        code: "GRAMMAR_INVALID",
        details: { token: tokensOf("x")[0] },
      });
  });

  test("forks at its place, and each goes its own way", async () => {
    const grammar = await compiler.compile({ kind: "regex", pattern: "ab*c" });
    using one = grammar.constraint();
    for (const text of ["a", "b"]) one.accept(tokensOf(text)[0] as number);
    // It is what the engine takes.
    using other: TokenConstraint = one.fork();
    expect(await other.allowed()).toEqual(await one.allowed());
    one.accept(tokensOf("c")[0] as number);
    expect(await allowed(one)).toEqual(ends);
    expect(allowedTokens((await other.allowed()) as Uint32Array, tokenizer.vocabularySize)).not.toEqual(ends);
  });

  test("many go on at once, each in its place", async () => {
    const grammars = await Promise.all(
      ["a{50}", "(?:bc){25}", "[d-f]{50}"].map((pattern) => compiler.compile({ kind: "regex", pattern })),
    );
    const dice = new Dice(1);
    const drawn = await Promise.all(
      Array.from({ length: 60 }, (_, index) =>
        drawText(tokenizer, grammars[index % 3] as (typeof grammars)[0], new Dice(dice.below(1000))),
      ),
    );
    drawn.forEach(({ text }, index) =>
      expect(text).toMatch([/^a{50}$/, /^(?:bc){25}$/, /^[d-f]{50}$/][index % 3] as RegExp),
    );
  });

  test("many of one grammar are followed in several threads", async () => {
    await using other = new GrammarCompiler(tokenizer, { threads: 2 });
    const grammar = await other.compile({ kind: "regex", pattern: "[a-f]{20}" });
    const drawn = await Promise.all(
      Array.from({ length: 24 }, (_, index) => drawText(tokenizer, grammar, new Dice(index))),
    );
    for (const { text } of drawn) expect(text).toMatch(/^[a-f]{20}$/);
    expect(other.threadsStarted).toBe(2);
  });

  test("is not used after it was disposed", async () => {
    const constraint = (await compiler.compile(yes)).constraint();
    const waiting = failure(constraint.allowed());
    constraint[Symbol.dispose]();
    constraint[Symbol.dispose]();
    expect((await waiting).code).toBe("DISPOSED");
    expect((await failure(constraint.allowed())).code).toBe("DISPOSED");
    expect(() => constraint.accept(1)).toThrow("disposed");
  });
});

describe("a compiler", () => {
  test("compiles what it knows already only once", async () => {
    const spec: GrammarSpec = { kind: "schema", schema: { type: "integer" } };
    const [one, two] = await Promise.all([
      compiler.compile(spec),
      compiler.compile({ kind: "schema", schema: { type: "integer" } }),
    ]);
    expect(one).toBe(two);
    expect(await compiler.compile(spec)).toBe(one);
  });

  test("compiles within its time, and no thread is lost over one that takes longer", async () => {
    await using other = new GrammarCompiler(tokenizer, { threads: 1, quickCompileMs: 1, compileMs: 2 });
    const schema = {
      properties: Object.fromEntries(
        Array.from({ length: 4500 }, (_, index) => [
          `p${index}`,
          { type: "number", minimum: -1.5e-5 * (index + 1), maximum: 1.5e300 * (index + 1) },
        ]),
      ),
    };
    expect(await failure(other.compile({ kind: "schema", schema }))).toMatchObject({
      code: "GRAMMAR_LIMIT",
      message: expect.stringContaining("compiled within 2 ms"),
    });
    expect(other.threadsStarted).toBe(2);
    // With time enough it is its own limits that refuse it.
    expect(await failure(compiler.compile({ kind: "schema", schema }))).toMatchObject({
      code: "GRAMMAR_LIMIT",
      details: { limit: "schemaSteps" },
    });
  });

  test("tells what is wrong as the reader says it, and does not read it again", async () => {
    const spec: GrammarSpec = { kind: "schema", schema: { type: "object", properties: { a: { type: "wrong" } } } };
    const first = await failure(compiler.compile(spec));
    expect(first).toMatchObject({
      name: "GrammarError",
      code: "GRAMMAR_INVALID",
      details: { place: "schema.properties.a.type" },
    });
    expect(first.message).toContain("[grammar] schema.properties.a.type: expected one of");
    expect(await failure(compiler.compile(spec))).toBe(first);
  });

  test("rejects what cannot be sent to a thread, and keeps nothing against the same without it", async () => {
    const schema = { type: "string", maxLength: 37 };
    expect(
      await failure(compiler.compile({ kind: "schema", schema: { ...schema, default: () => "a" } })),
    ).toMatchObject({ code: "GRAMMAR_INVALID", message: expect.stringContaining("could not be cloned") });
    expect((await drawText(tokenizer, await compiler.compile({ kind: "schema", schema }), new Dice(3))).text).toMatch(
      /^"/,
    );
  });

  test("gives up waiting when its signal says so, and goes on for others", async () => {
    const spec: GrammarSpec = { kind: "regex", pattern: "[a-q]{1,90}z" };
    const controller = new AbortController();
    const [waiting, other] = [failure(compiler.compile(spec, controller.signal)), compiler.compile(spec)];
    controller.abort(new Error("enough"));
    expect((await waiting).message).toBe("enough");
    await other;
    expect((await failure(compiler.compile(spec, controller.signal))).message).toBe("enough");
  });

  test("rejects options that it does not know, and work after its disposal", async () => {
    expect(() => new GrammarCompiler(tokenizer, { thread: 1 } as never)).toThrow('did you mean "threads"');
    expect(() => new GrammarCompiler(tokenizer, { threads: 0 })).toThrow("threads");
    const gone = new GrammarCompiler(tokenizer);
    await gone[Symbol.asyncDispose]();
    expect((await failure(gone.compile({ kind: "json" }))).code).toBe("DISPOSED");
  });

  test("rejects a vocabulary that nothing ends", async () => {
    const endless: VocabularyTokenizer = {
      vocabularySize: 1,
      tokenBytes: () => Buffer.from("a"),
      endOfGeneration: new Set(),
      encode: () => new Int32Array(),
    };
    await using other = new GrammarCompiler(endless);
    expect((await failure(other.compile({ kind: "json" }))).message).toContain("a token that ends a text");
  });

  test("a grammar that the vocabulary cannot spell is an error and no endless wait", async () => {
    await using other = new GrammarCompiler(letters(["a", "b"]));
    expect(await failure(other.compile({ kind: "regex", pattern: "x" }))).toMatchObject({ code: "GRAMMAR_INVALID" });
    const grammar = await other.compile({ kind: "regex", pattern: "abx" });
    using constraint = grammar.constraint();
    for (const token of [0, 1]) constraint.accept(token);
    expect(await failure(constraint.allowed())).toMatchObject({
      code: "GRAMMAR_INVALID",
      message: expect.stringContaining("found a place where none can"),
    });
  });

  test("a model with more logits than tokens gets masks of that size", async () => {
    await using other = new GrammarCompiler(letters(["a", "b"]), { vocabularySize: 100 });
    const grammar = await other.compile({ kind: "regex", pattern: "[^x]" });
    using constraint = grammar.constraint();
    const mask = await constraint.allowed();
    expect(mask).toHaveLength(4);
    expect(allowedTokens(mask, 128)).toEqual([0, 1]);
  });
});

describe("forms of tool calls", () => {
  const schema = {
    type: "object",
    properties: { city: { type: "string", maxLength: 8 }, days: { type: "integer", minimum: 1, maximum: 9 } },
    required: ["city"],
  };
  const forms = ["weather", "forecast"].map((name) => ({
    prefix: `<tool_call>\n{"name": "${name}", "arguments": `,
    schema,
    suffix: "}\n</tool_call>",
  }));

  test("one of several comes out whole", async () => {
    const grammar = await compiler.compile({ kind: "forms", forms });
    const dice = new Dice(9);
    const names = new Set<string>();
    for (let count = 0; count < 12; count++) {
      const { text } = await drawText(tokenizer, grammar, dice);
      expect(text).toMatch(/^<tool_call>\n[^]*\n<\/tool_call>$/);
      const call = JSON.parse(text.slice("<tool_call>".length, -"</tool_call>".length)) as {
        name: string;
        arguments: { city: string };
      };
      names.add(call.name);
      expect([...call.arguments.city].length).toBeLessThanOrEqual(8);
    }
    expect([...names].sort()).toEqual(["forecast", "weather"]);
  });

  test("control tokens around a form are forced, and no other way", async () => {
    const control = ["[CALLS]", "<call>", "</call>"];
    const spelled = letters([...'{}[]:," abcCALS<>/123456789'], control);
    const [calls, open, close] = control.map((text) => spelled.encode(text)[0] as number);
    await using other = new GrammarCompiler(spelled);
    const grammar = await other.compile({
      kind: "forms",
      forms: [{ prefix: "[CALLS]<call>[", schema: { enum: ["a"] }, suffix: "]</call>" }],
    });
    using constraint = grammar.constraint();
    const seen: number[] = [];
    for (
      let next = allowedTokens(await constraint.allowed(), spelled.vocabularySize);
      seen.length < 20;
      next = allowedTokens(await constraint.allowed(), spelled.vocabularySize)
    ) {
      expect(next).toHaveLength(1);
      seen.push(next[0] as number);
      if (spelled.endOfGeneration.has(next[0] as number)) break;
      constraint.accept(next[0] as number);
      using fork = constraint.fork();
      expect(await fork.allowed()).toEqual(await constraint.allowed());
    }
    const plain = (text: string): readonly number[] => [...text].map((letter) => spelled.encode(letter)[0] as number);
    expect(seen).toEqual([calls, open, ...plain('["a"]'), close, ...spelled.endOfGeneration]);
  });

  test("forms may differ in their control tokens", async () => {
    const spelled = letters([..."ab[]X"], ["[X]"]);
    await using other = new GrammarCompiler(spelled);
    const grammar = await other.compile({
      kind: "forms",
      forms: [
        { prefix: "[X]", schema: { const: [] }, suffix: "" },
        { prefix: "a", schema: { const: [] }, suffix: "" },
      ],
    });
    using constraint = grammar.constraint();
    expect(allowedTokens(await constraint.allowed(), spelled.vocabularySize)).toEqual(
      ["a", "[X]"].map((text) => spelled.encode(text)[0]),
    );
  });
});

describe("a thread", () => {
  test("that many requests resend its state to loads it once, and forgets no text", async () => {
    await using worker = new LimitedWorker({
      name: "grammar",
      file: builtFile(import.meta.url.replace("/test/grammar/", "/src/grammar/worker/"), "./grammar-thread.js"),
      deadlineMs: 20_000,
      heapMb: 256,
    });
    const vocabulary = await packVocabulary(tokenizer, tokenizer.vocabularySize);
    const spec: GrammarSpec = { kind: "regex", pattern: "ab*c" };
    const mask = new Uint32Array(new SharedArrayBuffer(4 * Math.ceil(vocabulary.size / 32)));
    const ask = async (
      text: number,
      from: number,
      tokens: readonly number[],
      resent: Partial<GrammarRequest> = {},
    ): Promise<unknown> => {
      const request: GrammarRequest = { grammar: 1, text: { id: text, from, tokens, mask }, closed: [], ...resent };
      const outcome = await worker.call<GrammarRequest, GrammarReply>(request);
      return outcome.kind === "answer" ? outcome.value : outcome;
    };
    const all = { vocabulary, spec };
    expect(await ask(1, 0, [])).toEqual({ kind: "missing", what: "vocabulary" });
    expect(await ask(1, 0, tokensOf("a"), all)).toMatchObject({ kind: "done" });
    expect(await ask(2, 0, tokensOf("a"), all)).toMatchObject({ kind: "done" });
    expect(await ask(1, 1, tokensOf("b"))).toMatchObject({ kind: "done" });
    expect(await ask(1, 2, [], { closed: [1] })).toEqual({ kind: "missing", what: "tokens" });
    expect(await ask(2, 1, tokensOf("x"))).toMatchObject({ kind: "failed", code: "GRAMMAR_INVALID" });
  });
});

describe("hostile grammars", () => {
  const doubling = Array.from(
    { length: 12 },
    (_, level) => `r${level} ::= r${level + 1} r${level + 1} | r${level + 1}`,
  ).join("\n");
  const HOSTILE: Readonly<Record<string, GrammarSpec>> = {
    "a schema of many levels": {
      kind: "schema",
      schema: Array.from({ length: 300 }).reduce((inner) => ({ type: "array", items: inner }), { type: "null" }),
    },
    "recursion without an end": { kind: "schema", schema: { type: "array", items: { $ref: "#" }, minItems: 1 } },
    "wide repetition": { kind: "regex", pattern: "(?:(?:(?:.{1,100}){1,100}){1,100}){1,100}x" },
    "repetition of anything": { kind: "regex", pattern: ".{0,60000}x" },
    "groups without an end": { kind: "regex", pattern: "(".repeat(2000) },
    "a large list": {
      kind: "schema",
      schema: { enum: Array.from({ length: 19_000 }, (_, index) => `value ${index}`) },
    },
    "nested alternatives": {
      kind: "schema",
      schema: Array.from({ length: 9 }).reduce(
        (inner) => ({ type: "object", properties: { a: inner, b: inner, c: inner } }),
        { type: "string", maxLength: 9 },
      ),
    },
    ambiguity: { kind: "grammar", text: `root ::= r0\n${doubling}\nr12 ::= [a-z ]+ | [a-y ]* | ""` },
  };

  test.each(Object.entries(HOSTILE))(
    "%s ends in an error or is followed, and the next grammar works",
    async (_, spec) => {
      await using other = new GrammarCompiler(tokenizer, { threads: 1, compileMs: 1500, maskDeadlineMs: 400 });
      const outcome = await other
        .compile(spec)
        .then(
          async (grammar) => drawText(tokenizer, grammar, new Dice(2)),
          (error: unknown) => error,
        )
        .catch((error: unknown) => error);
      if (outcome instanceof Error && !outcome.message.startsWith("the text did not end"))
        expect(["GRAMMAR_LIMIT", "GRAMMAR_INVALID"]).toContain((outcome as GrammarError).code);
      const grammar = await other.compile({ kind: "regex", pattern: "fine" });
      expect((await drawText(tokenizer, grammar, new Dice(1))).text).toBe("fine");
    },
  );

  test("what others compile does not disturb a text, nor does a fork", async () => {
    await using other = new GrammarCompiler(tokenizer, { threads: 1 });
    const schema = {
      type: "object",
      properties: { name: { type: "string", minLength: 4, maxLength: 6 } },
      required: ["name"],
    };
    const grammar = await other.compile({ kind: "schema", schema });
    using constraint = grammar.constraint();
    for (const token of tokensOf('{"name": "ab')) constraint.accept(token);
    const before = await allowed(constraint);
    expect((await failure(other.compile(HOSTILE["a schema of many levels"] as GrammarSpec))).code).toBe(
      "GRAMMAR_LIMIT",
    );
    using fork = constraint.fork();
    expect(await allowed(fork)).toEqual(before);
    expect(await failure(constraint.finish())).toMatchObject({
      code: "GRAMMAR_INVALID",
      message: expect.stringContaining("a finished text"),
    });
    for (const token of tokensOf('cd"}')) constraint.accept(token);
    expect(await allowed(constraint)).toEqual(ends);
    await constraint.finish();
  });

  test("a schema with thousands of optional properties is followed", async () => {
    const properties = Object.fromEntries(
      Array.from({ length: 4000 }, (_, index) => [`p${index}`, { type: "integer" }]),
    );
    // However busy the machine is: the server's own limit is two seconds.
    const patient = { quickCompileMs: 60_000, compileMs: 60_000, maskDeadlineMs: 60_000 };
    await using slow = new GrammarCompiler(tokenizer, patient);
    const grammar = await slow.compile({ kind: "schema", schema: { type: "object", properties } });
    using constraint = grammar.constraint();
    for (const token of tokensOf('{"p7":1,"p3999":2}')) {
      expect(await allowed(constraint)).toContain(token);
      constraint.accept(token);
    }
    expect(await allowed(constraint)).toContain(ends[0]);
  });

  test("a list of thousands of values is followed", async () => {
    const spec: GrammarSpec = {
      kind: "schema",
      schema: { enum: Array.from({ length: 12_000 }, (_, index) => `${index * 7919} is a text`) },
    };
    expect((await drawText(tokenizer, await compiler.compile(spec), new Dice(1))).text).toMatch(/^"\d+ is a text"$/);
  });
});

/** One token for each text, control tokens behind them, and one that ends. */
function letters(texts: readonly string[], control: readonly string[] = []): VocabularyTokenizer {
  const end = texts.length + control.length;
  return {
    vocabularySize: end + 1,
    endOfGeneration: new Set([end]),
    tokenBytes: (token, special = false) =>
      Buffer.from(texts[token] ?? (special ? (control[token - texts.length] ?? "") : "")),
    encode: (text) => {
      const found: number[] = [];
      for (let at = 0; at < text.length;) {
        const index = [...texts, ...control].findLastIndex((part) => text.startsWith(part, at));
        found.push(index);
        at += Math.max(1, ([...texts, ...control][index] ?? "").length);
      }
      return Int32Array.from(found);
    },
  };
}
