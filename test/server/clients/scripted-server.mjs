// The server of this project, from dist/, with a model that writes what a script says: a copy of the embedded model with a
// published chat template and a long context, of whose tokens only the written one is allowed at each step. Everything
// else is as it is for users: HTTP, template, tokens, grammar, engine. Every request that arrives is kept.

import { Writable } from "node:stream";
import { ChatRenderer } from "../../../dist/chat/chat-renderer.js";
import { openModel } from "../../../dist/internals.js";
import { GrammarCompilers } from "../../../dist/completion/grammar-compilers.js";
import { createServer } from "../../../dist/server/server.js";

/** Tells what the model shall say: the first rule whose expression fits the prompt, each once unless it repeats. */
export class Script {
  #rules;
  constructor(rules) {
    this.#rules = [...rules];
  }

  answer(prompt) {
    const index = this.#rules.findIndex(({ when }) => new RegExp(when, "s").test(prompt));
    const rule = this.#rules[index];
    if (rule === undefined) throw new Error(`no rule fits the prompt: …${prompt.slice(-400)}`);
    if (rule.repeats !== true) this.#rules.splice(index, 1);
    return rule.answer;
  }
}

/** Allows the tokens of a text, one after the other, and then the end; what the request itself demands must allow them too. */
class WrittenAnswer {
  #tokens;
  #inner;
  #vocabularySize;
  #at;

  constructor(tokens, vocabularySize, inner, at = 0) {
    this.#tokens = tokens;
    this.#vocabularySize = vocabularySize;
    this.#inner = inner;
    this.#at = at;
  }

  async allowed() {
    const token = this.#tokens[this.#at];
    const demanded = await this.#inner?.allowed();
    if (demanded !== undefined && ((demanded[token >>> 5] >>> (token & 31)) & 1) === 0) {
      throw new Error(
        `the form that the request demands does not allow token ${token}, number ${this.#at} of the written answer`,
      );
    }
    const mask = new Uint32Array(Math.ceil(this.#vocabularySize / 32));
    mask[token >>> 5] |= 1 << (token & 31);
    return mask;
  }

  accept(token) {
    this.#at++;
    this.#inner?.accept(token);
  }

  fork() {
    return new WrittenAnswer(this.#tokens, this.#vocabularySize, this.#inner?.fork(), this.#at);
  }

  [Symbol.dispose]() {
    this.#inner?.[Symbol.dispose]();
  }
}

/** An engine whose completions are what the script says; each one is passed to `log`. */
export function scripted(model, script, log) {
  const { tokenizer, vocabularySize } = model;
  return new Proxy(model, {
    get(target, name) {
      if (name !== "complete") {
        const value = Reflect.get(target, name, target);
        return typeof value === "function" ? value.bind(target) : value;
      }
      return (request) => {
        const prompt = tokenizer.decode(request.prompt, { special: true });
        const answer = script.answer(prompt);
        const end = tokenizer.eosToken;
        const tokens = [...tokenizer.encode(answer, { addSpecial: false, parseSpecial: true }), end];
        const completion = target.complete({
          ...request,
          constraint: new WrittenAnswer(tokens, vocabularySize, request.constraint),
        });
        const logged = { promptTokens: request.prompt.length, answer };
        log(logged);
        const keep = ({ cachedTokens, timeToFirstTokenMs }) =>
          Object.assign(logged, { cachedTokens, timeToFirstTokenMs });
        // A completion that fails is the client's to tell.
        completion.summary.then(keep, () => {});
        return completion;
      };
    },
  });
}

/** One model, always loaded. */
class OneModelPool {
  #model;
  #path;

  constructor(model, path) {
    this.#model = model;
    this.#path = path;
  }

  list() {
    const { name, contextTokens } = this.#model;
    return [{ name, path: this.#path, state: "loaded", contextTokens, created: 1_700_000_000 }];
  }

  async acquire() {
    return { model: this.#model, [Symbol.dispose]() {} };
  }

  async with(_, use) {
    return use(this.#model);
  }

  recover() {}

  statistics() {
    return new Map([[this.#model.name, this.#model.statistics()]]);
  }

  residency() {
    return this.#model.residency;
  }

  async drain() {}
  async [Symbol.asyncDispose]() {}
}

/** Gives the system prompt of a request in Anthropic's form another first block; `{n}` in it is the request's number. */
function replaceFirstBlock(body, firstBlock, requests) {
  if (firstBlock !== undefined && Array.isArray(body?.system))
    body.system[0].text = firstBlock.replaceAll("{n}", String(requests));
}

export async function startScriptedServer({ modelPath, modelName, contextTokens, rules, firstBlock }) {
  const chat = new ChatRenderer();
  const grammar = new GrammarCompilers();
  const serving = { maxSequences: 4, kvCacheTokens: 2 * contextTokens };
  const model = await openModel(modelPath, { backend: "cpu", contextTokens }, { name: modelName, serving });
  const script = new Script(rules);
  const [exchanges, completions, log] = [[], [], []];
  const logDestination = new Writable({ write: (chunk, _, done) => done(void log.push(String(chunk))) });
  const pool = new OneModelPool(
    scripted(model.engine, script, (completion) => completions.push(completion)),
    modelPath,
  );
  const server = createServer({ pool, chat, grammar, port: 0, logLevel: "warn", logDestination });
  server.app.addHook("preValidation", async ({ id, method, url, headers, body }) => {
    replaceFirstBlock(body, firstBlock, exchanges.length);
    exchanges.push({ id, method, url, headers, body });
  });
  server.app.addHook("onResponse", async ({ id, method, url }, { statusCode }) => {
    const exchange = exchanges.find((each) => each.id === id);
    if (exchange === undefined) exchanges.push({ id, method, url, status: statusCode });
    else exchange.status = statusCode;
  });
  const url = await server.listen();
  return {
    url,
    exchanges,
    completions,
    log,
    async stop() {
      await server.stop(0);
      await model[Symbol.asyncDispose]();
      await Promise.all([chat[Symbol.asyncDispose](), grammar[Symbol.asyncDispose]()]);
    },
  };
}
