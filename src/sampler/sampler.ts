// Chooses the next token of one sequence. The step has applied mask and bias; the sampler applies penalties, DRY,
// top-k, typical, top-p, min-p, XTC, temperature and the draw (Mirostat 2 replaces the truncating stages). Invariants:
// the same seed, options and logits give the same tokens, whether rows come as candidates or as logits; after the first
// token nothing of the vocabulary's size is allocated, and a sampler owns nothing of that size.

import type { OutputWant, SparseBias } from "../backends/contract.js";
import { BackendError, OptionError, TokenizerError } from "../errors.js";
import { Candidates, type SampleInput } from "./candidates.js";
import { drawAt, drawFromAll } from "./draw.js";
import { DryPenalties, applyDry, hasDry } from "./dry.js";
import { TokenHistory } from "./history.js";
import { Mirostat } from "./mirostat.js";
import { type SamplerOptions, resolveSamplerOptions } from "./options.js";
import { applyPenalties, hasPenalties, onlyLowers } from "./penalties.js";
import { RandomSource } from "./rng.js";
import { keepMinP, keepTopK, keepTopP, keepTypical } from "./truncation.js";
import { excludeTopChoices } from "./xtc.js";

/** With more candidates than this, a row of logits is as cheap to copy and to read. */
const MAX_CANDIDATES = 1024;

const LOGITS: OutputWant = { kind: "logits" };
const NO_TOKENS = new Int32Array();
const NO_PENALTIES: ReadonlyMap<number, number> = new Map();

/** Shared by all samplers: choosing a token is synchronous and keeps no state here. */
const candidates = new Candidates();
const scratch = new Candidates();

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
  /** Whether no stage truncates: the draw is from the whole distribution. */
  readonly #drawsFromAll: boolean;
  /** The penalties after the last accepted token; undefined until they are needed. */
  #dryPenalties: ReadonlyMap<number, number> | undefined;

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
    this.#drawsFromAll = cutsNothing(this.options);
  }

  /** A sampler with the same options and history but another seed, which continues independently. */
  withSeed(seed: number): Sampler {
    return new Sampler({ ...this.options, seed }, this.#context, this.#history.copy());
  }

  /** What the next step must return: candidates if the choice cannot depend on the other logits, else all logits. */
  want(): OutputWant {
    const kept = this.#keptByRank();
    if (kept === undefined) return LOGITS;
    const lowered = this.#loweredTokens();
    if (lowered === undefined) return LOGITS;
    // Each lowered token may leave the top and let another one in.
    const count = kept + lowered;
    return count > MAX_CANDIDATES || count >= this.#vocabularySize ? LOGITS : { kind: "candidates", count };
  }

  /**
   * What a step must return for a row `tokens` further tokens ahead, whatever these are: at least as many candidates as
   * `want` will name then, of which the best are used.
   */
  wantAfter(tokens: number): OutputWant {
    if (tokens === 0) return this.want();
    const kept = this.#keptByRank();
    if (kept === undefined || this.#dry !== undefined) return LOGITS;
    const lowered = this.#loweredTokens();
    if (lowered === undefined) return LOGITS;
    // Each further token may be one that the penalties lower.
    const count = kept + lowered + (this.#penalised ? tokens : 0);
    return count > MAX_CANDIDATES || count >= this.#vocabularySize ? LOGITS : { kind: "candidates", count };
  }

  /** The bias that the step must add to the logits; `sample` does not add it again. */
  stepBias(): SparseBias | undefined {
    return this.#bias;
  }

  sample(input: SampleInput): SampledToken {
    this.#check(input);
    const token = this.#choose(input);
    return { token, logProbability: logitOf(input, token) - input.logSum };
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
    this.#dryPenalties = undefined;
  }

  #choose(input: SampleInput): number {
    const { temperature, topK, topP, minP, typicalP, minKeep } = this.options;
    const { counts } = this.#history;
    const dry = this.#findDry();
    // Without truncation whole rows are requested, so these are logits by id.
    if (this.#drawsFromAll && counts.size === 0 && dry.size === 0)
      return drawFromAll(input.logits, input.logSum, temperature, this.#random);
    candidates.load(input);
    if (this.#penalised) applyPenalties(candidates, counts, this.options);
    applyDry(candidates, dry);
    if (this.#drawsFromAll)
      return drawFromAll(candidates.logits.subarray(0, candidates.length), undefined, temperature, this.#random);
    candidates.dropImpossible();
    if (temperature === 0) return candidates.best();
    if (this.#mirostat !== undefined) return this.#mirostat.choose(candidates, temperature, this.#random);
    keepTopK(candidates, topK, minKeep);
    keepTypical(candidates, typicalP, minKeep, scratch);
    keepTopP(candidates, topP, minKeep);
    keepMinP(candidates, minP, minKeep);
    excludeTopChoices(candidates, this.options, this.#random);
    return candidates.ids[drawAt(candidates, temperature, this.#random)];
  }

  /** How many of the best tokens can matter, if that is known before the logits are. */
  #keptByRank(): number | undefined {
    if (this.options.temperature === 0) return 1;
    if (this.options.mirostat !== 0 || this.options.topK === 0) return undefined;
    return Math.max(this.options.topK, this.options.minKeep);
  }

  /** How many tokens the penalties lower; undefined if they may raise some. */
  #loweredTokens(): number | undefined {
    if (this.#penalised && !onlyLowers(this.options)) return undefined;
    const counts = this.#history.counts;
    let lowered = counts.size;
    for (const token of this.#findDry().keys()) if (!counts.has(token)) lowered += 1;
    return lowered;
  }

  #findDry(): ReadonlyMap<number, number> {
    if (this.#dry === undefined) return NO_PENALTIES;
    this.#dryPenalties ??= this.#dry.find(this.#history);
    return this.#dryPenalties;
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
    if (isEmpty) {
      throw new OptionError(
        "OPTION_VALUE",
        "[sampler] the mask excludes every token: every logit is -Infinity; allow at least one token, or remove a bias",
        {
          details: { vocabularySize: this.#vocabularySize },
        },
      );
    }
    throw new BackendError("BACKEND_NOT_FINITE", `[sampler] the step's log-sum is ${logSum}`);
  }
}

function cutsNothing({ temperature, topK, topP, minP, typicalP, xtcProbability, mirostat }: SamplerOptions): boolean {
  return (
    temperature > 0 && mirostat === 0 && topK === 0 && topP >= 1 && minP <= 0 && typicalP >= 1 && xtcProbability <= 0
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
