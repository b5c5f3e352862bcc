// GET /engine: what the engine of each model is doing, once as JSON, or as events to a client that accepts
// text/event-stream. The numbers are the engines' own statistics, read when a client asks or watches.

import type { EngineStatistics } from "../../../engine/serving.js";
import type { RouteFactory, ServerContext } from "../../completion/route-context.js";
import { LiveFeed, wantsEvents, type Watcher } from "../../http/live-feed.js";

/** Often enough to see batches change, seldom enough to cost nothing. */
const INTERVAL_MS = 500;
const EVENT = "engine";
const MS_PER_SECOND = 1000;
/** Memory is rounded, so that a server at rest sends no events. */
const MEMORY_STEP_BYTES = 2 ** 22;

/** The endpoint for the state of the engines. */
export const engineState: RouteFactory = (context) => {
  const feed = new LiveFeed(INTERVAL_MS, context.options.limits);
  return [
    {
      method: "GET",
      path: "/engine",
      summary:
        "What each model's engine is doing: queue, batch of the running step, tokens per second, prefix cache, KV blocks, state slots",
      streams: true,
      close: () => feed.close(),
      handle: (request, reply) => {
        if (wantsEvents(request)) return feed.watch(request, reply, new EngineWatcher(context));
        return reply.send(snapshot(context, () => null));
      },
    },
  ];
};

/** Sends a snapshot whenever one differs from the last. */
class EngineWatcher implements Watcher {
  readonly #context: ServerContext;
  #generated = new Map<string, number>();
  #sampledMs = performance.now();
  #sent = "";

  constructor(context: ServerContext) {
    this.#context = context;
  }

  next() {
    const nowMs = performance.now();
    const seconds = (nowMs - this.#sampledMs) / MS_PER_SECOND;
    const generated = new Map<string, number>();
    const data = snapshot(this.#context, (model, { generatedTokens }) => {
      generated.set(model, generatedTokens);
      const before = this.#generated.get(model);
      return before === undefined || seconds === 0 ? null : rate(generatedTokens - before, seconds);
    });
    this.#generated = generated;
    this.#sampledMs = nowMs;
    const text = JSON.stringify(data);
    if (text === this.#sent) return undefined;
    this.#sent = text;
    return { event: EVENT, data };
  }
}

function rate(tokens: number, seconds: number): number {
  return Math.max(0, Math.round((tokens / seconds) * 10) / 10);
}

type TokenRate = (model: string, statistics: EngineStatistics) => number | null;

function snapshot({ options: { pool, readiness }, tracker }: ServerContext, tokenRate: TokenRate): object {
  const statistics = pool.statistics();
  const memoryBytes = process.memoryUsage.rss();
  return {
    status: tracker.stopping ? "stopping" : readiness.status,
    requests_in_flight: tracker.count,
    memory_bytes: Math.round(memoryBytes / MEMORY_STEP_BYTES) * MEMORY_STEP_BYTES,
    models: pool.list().map(({ name, state, contextTokens }) => {
      const own = statistics.get(name);
      return {
        id: name,
        state,
        context_length: contextTokens ?? null,
        engine: own === undefined ? null : engineOf(own, tokenRate(name, own)),
      };
    }),
  };
}

function engineOf(statistics: EngineStatistics, tokensPerSecond: number | null): object {
  return {
    running: statistics.running,
    queued: statistics.queued,
    step: {
      sequences: statistics.stepSequences,
      prefill_tokens: statistics.stepPrefillTokens,
      decode_tokens: statistics.stepDecodeTokens,
      draft_tokens: statistics.stepDraftTokens,
    },
    generated_tokens_per_second: tokensPerSecond,
    kv_blocks: { total: statistics.blocks, free: statistics.freeBlocks, cached: statistics.cachedBlocks },
    state_slots: statistics.stateSlots === 0 ? null : stateSlotsOf(statistics),
    prompt_tokens: statistics.promptTokens,
    cached_tokens: statistics.cachedTokens,
    computed_tokens: statistics.computedTokens,
    generated_tokens: statistics.generatedTokens,
    draft_tokens: statistics.draftedTokens,
    accepted_draft_tokens: statistics.acceptedTokens,
    steps: statistics.steps,
    steps_seconds: statistics.stepsMs / MS_PER_SECOND,
    preemptions: statistics.preemptions,
    warm_up: { steps: statistics.warmUpSteps, done: statistics.warmUpStepsDone },
  };
}

function stateSlotsOf(statistics: EngineStatistics): object {
  return {
    total: statistics.stateSlots,
    free: statistics.freeStateSlots,
    checkpoints: statistics.checkpoints,
    evicted_checkpoints: statistics.evictedCheckpoints,
    bytes: statistics.stateBytes,
  };
}
