// Chooses the next token of one sequence: its random numbers, its history for penalties and DRY, and the state of
// Mirostat. The step has applied mask and bias; `token-choice.ts` has the stages, which a step computes too if its rows
// are tokens. Invariants: the same seed, options and logits give the same tokens, whether rows come as tokens, as
// candidates or as logits; a sampler owns nothing of the vocabulary's size.

import type { OutputWant, SparseBias, TokenPenalties, TokenSampling } from "../backends/contract.js";
import { BackendError, OptionError, TokenizerError } from "../errors.js";
import type { SampleInput } from "./candidates.js";
import { DryPenalties, hasDry } from "./dry.js";
import { TokenHistory } from "./history.js";
import { Mirostat } from "./mirostat.js";
import { type SamplerOptions, resolveSamplerOptions } from "./options.js";
import { hasPenalties, onlyLowers, penaltiesOf } from "./penalties.js";
import { RandomSource } from "./rng.js";
import {
  candidatesOrLogits,
  choose,
  loadCandidates,
  rowForToken,
  type ScoredWant,
  type TokenRow,
} from "./token-choice.js";

const LOGITS = { kind: "logits" } as const;
const NO_TOKENS = new Int32Array();
const NO_COUNTS: ReadonlyMap<number, number> = new Map();

/** A chosen token with its log-probability. */
interface SampledToken {
  readonly token: number;
  /**
   * The log-probability of the chosen token in the whole vocabulary after mask and bias, before penalties and
   * temperature.
   */
  readonly logProbability: number;
}

/** The model whose tokens are chosen. */
interface SamplerContext {
  readonly vocabularySize: number;
  /** Tokens that are never chosen, whatever bias they have; ascending. */
  readonly suppressedTokens?: Int32Array;
}

/** Chooses the tokens of one sequence. */
export class Sampler {
  readonly options: SamplerOptions;
  /** The seed in use, whether given or chosen at random. */
  readonly seed: number;
  readonly #context: SamplerContext;
  readonly #vocabularySize: number;
  readonly #random: RandomSource;
  readonly #history: TokenHistory;
  readonly #penalised: boolean;
  readonly #dry: DryPenalties | undefined;
  readonly #mirostat: Mirostat | undefined;
  readonly #bias: SparseBias | undefined;
  /** The stages of a token, save what changes from token to token. */
  readonly #stages: Omit<TokenSampling, "draw">;
  /** The penalties after the last accepted token; undefined until they are needed. */
  #penalties: { readonly list: TokenPenalties | undefined } | undefined;

  /** `history` holds the text so far; without it the text begins here. */
  constructor(options: Partial<SamplerOptions>, context: SamplerContext, history?: TokenHistory) {
    this.options = resolveSamplerOptions(options);
    this.#context = context;
    this.#vocabularySize = context.vocabularySize;
    this.#random = new RandomSource(this.options.seed);
    this.seed = this.#random.seed;
    this.#penalised = hasPenalties(this.options);
    this.#history = history ?? new TokenHistory(this.#penalised ? this.options.penaltyTokens : 0);
    this.#dry = hasDry(this.options) ? new DryPenalties(this.options) : undefined;
    this.#mirostat =
      this.options.mirostat === 2 ? new Mirostat(this.options.mirostatTau, this.options.mirostatEta) : undefined;
    this.#bias = toSparseBias(this.options.logitBias, context);
    const { temperature, topK, typicalP, topP, minP, minKeep } = this.options;
    this.#stages = { temperature, topK, typicalP, topP, minP, minKeep };
  }

  /** A sampler with the same options and history but another seed, which continues independently. */
  withSeed(seed: number): Sampler {
    return new Sampler({ ...this.options, seed }, this.#context, this.#history.copy());
  }

  /** The row that `sample` takes next: candidates if the choice cannot depend on the other logits, else all logits. */
  want(): ScoredWant {
    if (this.#mirostat !== undefined && this.options.temperature > 0) return LOGITS;
    return rowForToken({ kind: "token", sampling: this.#sampling(0), top: 0 }, this.#vocabularySize);
  }

  /**
   * A row that `sample` takes after `tokens` further tokens, whatever these are: at least as many candidates as `want`
   * will name then, of which the best are used.
   */
  wantAfter(tokens: number): ScoredWant {
    const want = this.want();
    if (tokens === 0 || want.kind === "logits") return want;
    if (this.#dry !== undefined) return LOGITS;
    if (!this.#penalised) return want;
    // Each further token may be one that the penalties lower.
    return onlyLowers(this.options) ? candidatesOrLogits(want.count + tokens, this.#vocabularySize) : LOGITS;
  }

  /**
   * The request for the token itself, after `tokens` further tokens, with the `top` most likely ones; undefined if the
   * choice depends on what only `sample` knows then.
   */
  tokenWant(tokens: number, top: number): OutputWant | undefined {
    if (this.#mirostat !== undefined && this.options.temperature > 0) return undefined;
    if (tokens > 0 && (this.#penalised || this.#dry !== undefined)) return undefined;
    return { kind: "token", sampling: this.#sampling(tokens), top };
  }

  /** The bias that the step must add to the logits; `sample` does not add it again. */
  stepBias(): SparseBias | undefined {
    return this.#bias;
  }

  /** Chooses a token from a row of `want`. */
  sample(input: SampleInput): SampledToken {
    this.#check(input);
    const token = this.#choose(input);
    return { token, logProbability: logitOf(input, token) - input.logSum };
  }

  /** Accepts the step's choice for a request of `tokenWant`, and moves on to the next random number. */
  take({ token, logSum }: TokenRow): number {
    if (logSum === Number.NEGATIVE_INFINITY) throw excludesAll(this.#vocabularySize);
    if (!(token >= 0 && token < this.#vocabularySize)) {
      throw new BackendError(
        "BACKEND_STEP",
        `[sampler] take: expected a token below ${this.#vocabularySize}, found ${token}`,
        { details: { token, vocabularySize: this.#vocabularySize } },
      );
    }
    this.#skipDraws();
    return token;
  }

  /** Adds a token of the prompt or of the answer to the history that penalties consider. */
  accept(token: number): void {
    if (!Number.isInteger(token) || token < 0 || token >= this.#vocabularySize) {
      throw new TokenizerError(
        "TOKENIZER_TOKEN",
        `[sampler] accept: expected a token id below ${this.#vocabularySize}, found ${token}`,
        {
          details: { token, vocabularySize: this.#vocabularySize },
        },
      );
    }
    if (!this.#penalised && this.#dry === undefined) return;
    this.#history.push(token);
    this.#penalties = undefined;
  }

  #choose(input: SampleInput): number {
    const { temperature } = this.options;
    if (this.#mirostat !== undefined && temperature > 0)
      return this.#mirostat.choose(loadCandidates(input, this.#tokenPenalties()), temperature, this.#random);
    const token = choose(input, this.#sampling(0));
    this.#skipDraws();
    return token;
  }

  /** How the token after `tokens` further ones is chosen. */
  #sampling(tokens: number): TokenSampling {
    if (this.options.temperature === 0) return this.#withPenalties({ ...this.#stages, draw: 0 });
    const { xtcProbability, xtcThreshold } = this.options;
    const first = tokens * this.#drawsPerToken;
    if (xtcProbability <= 0) return this.#withPenalties({ ...this.#stages, draw: this.#random.peek(first) });
    const sampling = { ...this.#stages, draw: this.#random.peek(first + 1) };
    const excludes = this.#random.peek(first) < xtcProbability;
    return this.#withPenalties(excludes ? { ...sampling, xtcThreshold } : sampling);
  }

  #withPenalties(sampling: TokenSampling): TokenSampling {
    const penalties = this.#tokenPenalties();
    return penalties === undefined ? sampling : { ...sampling, penalties };
  }

  /** Random numbers of each token: XTC takes one, whatever it does, so that later draws do not depend on it. */
  get #drawsPerToken(): number {
    if (this.options.temperature === 0) return 0;
    return this.options.xtcProbability > 0 ? 2 : 1;
  }

  #skipDraws(): void {
    for (let left = this.#drawsPerToken; left > 0; left--) this.#random.next();
  }

  #tokenPenalties(): TokenPenalties | undefined {
    if (!this.#penalised && this.#dry === undefined) return undefined;
    this.#penalties ??= {
      list: penaltiesOf(this.#history.counts, this.#dry?.find(this.#history) ?? NO_COUNTS, this.options),
    };
    return this.#penalties.list;
  }

  /** Throws if no token can be chosen from the row. */
  #check(input: SampleInput): void {
    const { logits, logSum } = input;
    const want = this.want();
    // A whole row is always accepted; candidates only if they were requested, and as many.
    const wanted = input.kind === "candidates" && want.kind === "candidates" ? want.count : this.#vocabularySize;
    const isOfKind = input.kind === "logits" || want.kind === "candidates";
    if (!isOfKind || logits.length !== wanted) {
      throw new BackendError(
        "BACKEND_STEP",
        `[sampler] sample: expected ${wanted} ${want.kind}, found ${logits.length} ${input.kind}`,
        {
          details: { kind: input.kind, length: logits.length, wanted },
        },
      );
    }
    // The sum is finite exactly if every logit is finite or excluded, and at least one is not excluded.
    if (Number.isFinite(logSum)) return;
    let isEmpty = true;
    for (let index = 0; index < logits.length; index++) {
      // False for both NaN and +Infinity.
      if (!(logits[index] < Number.POSITIVE_INFINITY)) throw notFinite(input, index);
      if (logits[index] > Number.NEGATIVE_INFINITY) isEmpty = false;
    }
    if (isEmpty) throw excludesAll(this.#vocabularySize);
    throw new BackendError("BACKEND_NOT_FINITE", `[sampler] the step's log-sum is ${logSum}`);
  }
}

function excludesAll(vocabularySize: number): OptionError {
  return new OptionError(
    "OPTION_VALUE",
    "[sampler] the mask excludes every token: every logit is -Infinity; allow at least one token, or remove a bias",
    { details: { vocabularySize } },
  );
}

function logitOf(input: SampleInput, token: number): number {
  return input.logits[input.kind === "logits" ? token : input.ids.indexOf(token)];
}

function notFinite(input: SampleInput, index: number): BackendError {
  const token = input.kind === "candidates" ? input.ids[index] : index;
  const logit = input.logits[index];
  return new BackendError(
    "BACKEND_NOT_FINITE",
    `[sampler] the step gave token ${token} the logit ${logit}; the model's weights or the backend are faulty`,
    {
      details: { token, logit },
    },
  );
}

function toSparseBias(bias: ReadonlyMap<number, number>, context: SamplerContext): SparseBias | undefined {
  const { vocabularySize, suppressedTokens = NO_TOKENS } = context;
  for (const id of bias.keys()) if (id >= vocabularySize) throw unknownToken(id, vocabularySize);
  if (bias.size === 0 && suppressedTokens.length === 0) return undefined;
  const values = new Map(bias);
  for (const id of suppressedTokens) values.set(id, Number.NEGATIVE_INFINITY);
  const entries = [...values].sort(([left], [right]) => left - right);
  return { ids: Int32Array.from(entries, ([id]) => id), values: Float32Array.from(entries, ([, value]) => value) };
}

function unknownToken(id: number, vocabularySize: number): OptionError {
  return new OptionError(
    "OPTION_VALUE",
    `[sampler] logitBias: expected token ids below ${vocabularySize}, found ${id}`,
    {
      details: { option: "logitBias", token: id, vocabularySize },
    },
  );
}
