// Opens a model's file and builds its plan. While the backend is starting, the file is opened and its vocabulary decoded:
// in a thread if the model's first prompt is known, otherwise as much of it as time allows.

import { setImmediate as nextTurn } from "node:timers/promises";
import type { Backend, BackendLoadTimings } from "../backends/contract.js";
import { withPath } from "../error-path.js";
import { draftHeadFor, type DraftingOptions, refuseDraftMode } from "../engine/drafting.js";
import { type ModelOptions, type OpenedPlan, openPlan } from "../engine/open-plan.js";
import { refuseContext } from "../engine/plan-fit.js";
import { fileIdentity } from "../gguf/file.js";
import type { ServingOptions } from "../engine/serving-options.js";
import type { DraftMode } from "../speculation/speculation.js";
import type { DraftModel } from "../speculation/model-drafter.js";
import { TokenizerBuilder } from "../tokenizer/tokenizer-builder.js";
import { hasTokenizer } from "../tokenizer/tokenizer.js";
import type { VocabularyWorker } from "../tokenizer/vocabulary-worker.js";

/** Of texts with common words, and with rare ones. */
const BYTES_PER_TOKEN = [4.5, 3];

/** Options of `Model.open`. Part of the internals. */
export interface OpenOptions extends ModelOptions {
  /** Loading starts at once with what this prompt needs, instead of at first use. */
  readonly firstPrompt?: string;
  /** Maximum number of sequences in a batch, by default 64, on large GPUs up to 256; more wait in a queue. */
  readonly concurrency?: number;
  /** The model's name in requests and logs; by default its file's name. */
  readonly name?: string;
  /** Which drafters to use; "auto" by default. */
  readonly draft?: DraftMode;
  /** The file of a smaller model that drafts. */
  readonly draftModel?: string;
  /** Options of a server: a KV cache that is allocated at once, and a bounded queue. */
  readonly serving?: ServingOptions;
}

/** Times of the parts of loading, which overlap. Names that end in `StartMs` count from the start of the process. */
export interface LoadTimings extends BackendLoadTimings {
  /** From the start of the process until the model was requested. */
  readonly processStartMs: number;
  readonly planStartMs: number;
  /** Time for building the plan once file and backend were ready. */
  readonly planMs: number;
}

/** An open file with its plan. */
export interface Opening {
  readonly opened: OpenedPlan;
  /** The vocabulary, as far as it has been decoded. */
  readonly tokenizer: TokenizerBuilder | undefined;
  readonly times: Omit<LoadTimings, keyof BackendLoadTimings>;
}

/** Opens a model with what drafts for it; disposes the backend if that fails. */
export async function openWithDrafts(
  path: string,
  backend: Backend | Promise<Backend>,
  { firstPrompt, draft, draftModel: draftPath, ...options }: Omit<OpenOptions, "concurrency" | "name" | "serving">,
): Promise<{ readonly opening: Opening; readonly drafting: DraftingOptions }> {
  const head = await draftHeadOptions(backend, draft, draftPath);
  const opening = await openModelFile(path, backend, { ...options, ...head }, firstPrompt);
  const isModel = draftPath !== undefined && head.draftHeadPath === undefined;
  const draftModel = isModel ? await openDrafter(opening, draftPath) : undefined;
  return {
    opening,
    drafting: { ...(draft === undefined ? {} : { draft }), ...(draftModel === undefined ? {} : { draftModel }) },
  };
}

/** Opens a file and builds its plan; disposes the backend if that fails. */
async function openModelFile(
  path: string,
  backend: Backend | Promise<Backend>,
  options: ModelOptions,
  firstPrompt: string | undefined,
): Promise<Opening> {
  const processStartMs = performance.now();
  let opened: OpenedPlan | undefined;
  let tokenizer: TokenizerBuilder | undefined;
  try {
    // Before the file is opened, because a thread takes a while to start.
    using thread = firstPrompt === undefined ? undefined : await startThread(path, backend);
    opened = await openPlan(path, backend, options, async ({ file }) => {
      if (!(backend instanceof Promise) || !hasTokenizer(file.metadata)) return;
      tokenizer = new TokenizerBuilder(file.metadata, () => thread?.take(fileIdentity(file)));
      await decodeUntil(backend, tokenizer, thread);
    });
    const { plan, planStartMs, planMs } = opened;
    const ready = plan.backend.ready?.();
    // If nothing has to be waited for, this thread is done sooner than one that has just been started.
    if (ready === undefined) thread?.giveUpIfYoung();
    if (ready !== undefined) {
      // Its kernels are loaded before the weights, which would delay them.
      if (firstPrompt !== undefined) for (const tokens of likelyTokens(firstPrompt)) plan.prepareStep(tokens);
      await decodeUntil(ready, tokenizer, thread);
      await ready;
    }
    refuseContext(plan);
    if (firstPrompt !== undefined) {
      // Decoding the rest of the vocabulary shares this thread with loading, and what follows may block the thread for
      // longer.
      await Promise.all([plan.preload(), decodeRest(tokenizer, thread)]);
    }
    return { opened, tokenizer, times: { processStartMs, planStartMs, planMs } };
  } catch (error) {
    await opened?.loader[Symbol.asyncDispose]();
    await (await backend)[Symbol.asyncDispose]();
    throw error;
  }
}

/** The options of a plan that concern its draft head; disposes the backend if the draft model's file is unusable. */
async function draftHeadOptions(
  backend: Backend | Promise<Backend>,
  draft: DraftMode | undefined,
  draftPath: string | undefined,
): Promise<Pick<ModelOptions, "draftHead" | "draftHeadPath">> {
  if (draftPath === undefined) return { draftHead: draftHeadFor(draft) };
  try {
    const { isDraftHeadFile } = await import("../engine/draft-head-file.js");
    const isHead = await isDraftHeadFile(draftPath);
    refuseDraftMode("loadModel", draft, isHead ? "head" : "model");
    return isHead ? { draftHead: true, draftHeadPath: draftPath } : { draftHead: false };
  } catch (error) {
    await (await backend)[Symbol.asyncDispose]();
    throw withPath(draftPath, error);
  }
}

/** Opens the draft model of a model that is open; disposes the model if that fails. */
async function openDrafter({ opened: { loader, plan } }: Opening, path: string): Promise<DraftModel> {
  try {
    // Few programs have a draft model.
    const { openDraftModel } = await import("../engine/open-draft-model.js");
    return await openDraftModel(path, plan.backend, plan, loader.file);
  } catch (error) {
    await plan[Symbol.asyncDispose]();
    await loader[Symbol.asyncDispose]();
    await plan.backend[Symbol.asyncDispose]();
    throw error;
  }
}

/** Starts to decode the vocabulary in a thread if a backend is starting meanwhile; undefined if it is not worth one. */
async function startThread(path: string, backend: Backend | Promise<Backend>): Promise<VocabularyWorker | undefined> {
  if (!(backend instanceof Promise)) return undefined;
  // It is awaited later; a failure before that must not end the process.
  backend.catch(() => {});
  // Programs without a first prompt do not load what runs threads.
  const thread = await import("../tokenizer/vocabulary-worker.js");
  return thread.VocabularyWorker.startFor(path);
}

/** Decodes the vocabulary until a promise is settled. */
async function decodeUntil(
  settled: Promise<unknown>,
  tokenizer: TokenizerBuilder | undefined,
  thread: VocabularyWorker | undefined,
): Promise<void> {
  let isWaiting = true;
  const stop = (): void => void (isWaiting = false);
  const stopped = settled.then(stop, stop);
  // A promise that is already settled leaves no time.
  await undefined;
  if (isWaiting && thread?.isPending === true) await Promise.race([stopped, thread.settled]);
  while (isWaiting && tokenizer?.step() === true) await nextTurn();
}

/** Decodes what is left of the vocabulary, between the parts of other work. */
async function decodeRest(
  tokenizer: TokenizerBuilder | undefined,
  thread: VocabularyWorker | undefined,
): Promise<void> {
  if (tokenizer === undefined) return;
  if (thread?.isPending === true) await thread.settled;
  while (tokenizer.step()) await nextTurn();
}

/**
 * Numbers of tokens that a prompt may have, before the vocabulary is decoded: steps of similar numbers have the same
 * kernels.
 */
function likelyTokens(prompt: string): readonly number[] {
  return BYTES_PER_TOKEN.map((bytes) => 1 + Math.ceil(Buffer.byteLength(prompt) / bytes));
}
