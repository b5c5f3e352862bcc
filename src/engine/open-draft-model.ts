// Opens the smaller model that drafts for a larger one: its plan on the same backend, and a KV cache of its own. The
// two vocabularies have to be the same, except that one may have more tokens at its end.

import type { Backend, KvCache, OutputRow, RunOptions, StepInput } from "../backends/contract.js";
import { ModelError } from "../errors.js";
import type { GgufFile } from "../gguf/file.js";
import { kvGroups } from "../graph/cache-groups.js";
import type { BlockPools } from "../kv-cache/block-pools.js";
import type { GgufLoader } from "../loader/gguf-loader.js";
import type { ExecutionPlan } from "../plan/execution-plan.js";
import type { DraftModel } from "../speculation/model-drafter.js";
import { KvStore } from "./kv-store.js";
import { cacheLimitTokens } from "./kv-store-size.js";
import { openPlan } from "./open-plan.js";

/** Sequences of which the draft model keeps texts; a step with more does not pay anyway. */
const MAX_SEQUENCES = 16;
/** State slots of each, if the draft model has recurrent layers: of its text, of a draft, and of a text that has ended. */
const STATE_SLOTS = 3;
/** Minimum size of the draft model's cache once it grows. */
const LEAST_GROWN_TOKENS = 1024;

/** Opens a draft model for a target; throws MODEL_INVALID if their vocabularies differ. */
export async function openDraftModel(path: string, backend: Backend, target: ExecutionPlan, file: GgufFile) {
  const { contextTokens, ignoreMemoryCheck } = target.config;
  const { loader, plan } = await openPlan(path, backend, { ignoreMemoryCheck, draftHead: false });
  try {
    refuseOtherVocabulary(file, loader.file);
    return new OpenedDraftModel(loader, plan, Math.min(contextTokens, plan.config.contextTokens));
  } catch (error) {
    await plan[Symbol.asyncDispose]();
    await loader[Symbol.asyncDispose]();
    throw error;
  }
}

/** An open draft model, which owns its file, its plan and its cache. */
class OpenedDraftModel implements DraftModel {
  readonly vocabularySize: number;
  readonly contextTokens: number;
  readonly stepTokens: number;
  readonly sequences: number;
  readonly #loader: GgufLoader;
  readonly #plan: ExecutionPlan;
  readonly #store: KvStore;

  constructor(loader: GgufLoader, plan: ExecutionPlan, contextTokens: number) {
    const { maxStepTokens, maxStepOutputs, chunkTokens = maxStepTokens } = plan.backend;
    this.#loader = loader;
    this.#plan = plan;
    this.vocabularySize = plan.program.vocabularySize;
    this.contextTokens = contextTokens;
    this.stepTokens = Math.min(chunkTokens, maxStepTokens, plan.config.contextTokens);
    this.sequences = Math.min(MAX_SEQUENCES, maxStepOutputs, this.stepTokens);
    this.#store = storeOf(plan, this.sequences);
  }

  get pools(): BlockPools {
    return this.#store.pools;
  }

  get kvCache(): KvCache {
    return this.#store.kvCache;
  }

  makeRoom(lengths: readonly number[]): void {
    const { blockTokens, maxBlocks } = this.pools;
    const tokens = lengths.reduce((sum, length) => sum + Math.ceil(length / blockTokens) * blockTokens, 0);
    const wanted = this.#plan.kvCacheBlocks(tokens, lengths.length);
    const blocks = wanted.map((count, group) => Math.min(count, maxBlocks[group]));
    const stateSlots = Math.min(lengths.length * STATE_SLOTS, this.pools.states?.maxBlocks ?? 0);
    const demand = { blocks, largest: blocks.map(() => 0), stateSlots };
    if (!this.#store.isShortOf(demand)) return;
    const { sizes } = this.pools;
    // An empty store has nothing to keep.
    if (!this.#store.extend(demand) && [...sizes.blocks, sizes.stateSlots].every((count) => count === 0))
      this.#store.replace(demand);
  }

  step(step: StepInput, kvCache: KvCache, options: RunOptions): Promise<readonly OutputRow[]> {
    return this.#plan.step(step, kvCache, options);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#store[Symbol.dispose]();
    await this.#plan[Symbol.asyncDispose]();
    await this.#loader[Symbol.asyncDispose]();
  }
}

function storeOf(plan: ExecutionPlan, sequences: number): KvStore {
  const { blockTokens, contextTokens } = plan.config;
  const maxBlocks = plan.kvCacheBlocks(cacheLimitTokens(plan, sequences), sequences);
  const hasStates = plan.program.kv.states !== undefined;
  return new KvStore({
    ...(hasStates ? { states: { slots: 0, maxSlots: sequences * STATE_SLOTS } } : {}),
    groups: kvGroups(plan.program.kv).map(({ window, chunk }, group) => ({
      ...(window === undefined ? {} : { window }),
      ...(chunk === undefined ? {} : { chunk }),
      blocks: 0,
      maxBlocks: maxBlocks[group],
      leastGrownBlocks: Math.ceil(Math.min(LEAST_GROWN_TOKENS, contextTokens) / blockTokens),
    })),
    blockTokens,
    sharesPrefixes: true,
    create: (blocks, stateSlots) => plan.createGroupedKvCache(blocks, stateSlots),
  });
}

/** Token ids have to mean the same in both models; padding at the end of one does not matter. */
function refuseOtherVocabulary(target: GgufFile, draft: GgufFile): void {
  const [left, right] = [target, draft].map(({ metadata }) => metadata.array("tokenizer.ggml.tokens", ["string"]));
  if (left === undefined || right === undefined) {
    if (left === right) return;
    throw otherVocabulary(target, draft, "only one of the two files has a vocabulary");
  }
  const [leftTexts, rightTexts] = [left.strings(), right.strings()];
  for (let token = 0; leftTexts.next() && rightTexts.next(); token++) {
    const one = Buffer.from(leftTexts.bytes.subarray(leftTexts.start, leftTexts.end));
    if (one.equals(rightTexts.bytes.subarray(rightTexts.start, rightTexts.end))) continue;
    throw otherVocabulary(target, draft, `they differ first in token ${token}`);
  }
}

function otherVocabulary(target: GgufFile, draft: GgufFile, reason: string): ModelError {
  return new ModelError(
    "MODEL_INVALID",
    `[draft] ${draft.path}: expected the vocabulary of ${target.path}, and ${reason}; choose a smaller model of the same family`,
    { details: { path: draft.path, target: target.path, reason } },
  );
}
