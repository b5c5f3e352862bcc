// The metrics of the server: requests and tokens as they are counted here, and the engine's own numbers, read when
// /metrics is requested. Invariant: labels come from small closed sets (routes, statuses, served models), whatever
// clients send.

import type { CompletionSummary, EngineStatistics, ModelPool } from "../../engine/serving.js";
import { Counter, Gauge, Histogram, Registry } from "./prometheus.js";

const REQUEST_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600];
const FIRST_TOKEN_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60];
const TOKEN_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1, 2];
const MS_PER_SECOND = 1000;

interface EngineMetric {
  readonly name: string;
  readonly help: string;
  readonly value: (statistics: EngineStatistics) => number;
}

const ENGINE_METRICS: readonly EngineMetric[] = [
  {
    name: "requests_running",
    help: "Sequences in the batch; a request has one for each choice.",
    value: ({ running }) => running,
  },
  { name: "requests_queued", help: "Sequences waiting in the queue.", value: ({ queued }) => queued },
  { name: "kv_blocks", help: "Blocks of the KV cache.", value: ({ blocks }) => blocks },
  { name: "kv_blocks_free", help: "Free blocks of the KV cache.", value: ({ freeBlocks }) => freeBlocks },
  {
    name: "kv_blocks_cached",
    help: "Blocks that no request uses, kept for prompts with the same prefix.",
    value: ({ cachedBlocks }) => cachedBlocks,
  },
  {
    name: "state_slots",
    help: "Slots for recurrent states; 0 for a model without recurrent layers.",
    value: ({ stateSlots }) => stateSlots,
  },
  {
    name: "state_slots_free",
    help: "Slots that neither a sequence nor a checkpoint uses.",
    value: ({ freeStateSlots }) => freeStateSlots,
  },
  { name: "state_bytes", help: "Bytes of all slots for recurrent states.", value: ({ stateBytes }) => stateBytes },
  {
    name: "checkpoints",
    help: "Recurrent states that are kept for prompts with the same prefix.",
    value: ({ checkpoints }) => checkpoints,
  },
  {
    name: "checkpoints_evicted",
    help: "Checkpoints evicted since the model was loaded.",
    value: ({ evictedCheckpoints }) => evictedCheckpoints,
  },
  {
    name: "computed_tokens",
    help: "Tokens that steps have computed since the model was loaded, of prompts and of answers.",
    value: ({ computedTokens }) => computedTokens,
  },
  { name: "steps", help: "Steps since the model was loaded.", value: ({ steps }) => steps },
  {
    name: "steps_seconds",
    help: "Time spent in steps since the model was loaded.",
    value: ({ stepsMs }) => stepsMs / MS_PER_SECOND,
  },
  {
    name: "between_steps_seconds",
    help: "Time between a step's result and the next step's launch since the model was loaded.",
    value: ({ betweenStepsMs }) => betweenStepsMs / MS_PER_SECOND,
  },
  { name: "warm_up_steps", help: "Steps of the model's warm-up.", value: ({ warmUpSteps }) => warmUpSteps },
  {
    name: "warm_up_steps_done",
    help: "Steps of the warm-up that have finished.",
    value: ({ warmUpStepsDone }) => warmUpStepsDone,
  },
  {
    name: "warm_up_seconds",
    help: "Time that the warm-up took, or has taken so far.",
    value: ({ warmUpMs }) => warmUpMs / MS_PER_SECOND,
  },
  {
    name: "preemptions",
    help: "Sequences preempted since the model was loaded.",
    value: ({ preemptions }) => preemptions,
  },
];

/** A request as metrics count it. */
interface AnsweredRequest {
  /** The path of the route; undefined if the request matched none. */
  readonly route: string | undefined;
  readonly status: number;
  readonly seconds: number;
}

/** Values that are read when /metrics is requested. */
interface MetricSources {
  readonly pool: ModelPool;
  readonly requestsInFlight: () => number;
  readonly isReady: () => boolean;
  readonly droppedLogLines: () => number;
}

/** The server's metrics for Prometheus. */
export class ServerMetrics {
  readonly #registry = new Registry();
  readonly #requests: Counter<"route" | "status">;
  readonly #requestSeconds: Histogram<"route">;
  readonly #promptTokens: Counter<"model">;
  readonly #cachedTokens: Counter<"model">;
  readonly #generatedTokens: Counter<"model">;
  readonly #draftedTokens: Counter<"model">;
  readonly #acceptedTokens: Counter<"model">;
  readonly #firstTokenSeconds: Histogram<"model">;
  readonly #tokenSeconds: Histogram<"model">;
  readonly #queueSeconds: Histogram<"model">;

  constructor(sources: MetricSources) {
    const registers = [this.#registry];
    const counter = <Label extends string>(name: string, help: string, ...labelNames: Label[]): Counter<Label> =>
      new Counter({ name: `rocmforge_${name}`, help, labelNames, registers });
    const histogram = <Label extends string>(
      name: string,
      help: string,
      buckets: number[],
      ...labelNames: Label[]
    ): Histogram<Label> => new Histogram({ name: `rocmforge_${name}`, help, buckets, labelNames, registers });

    this.#requests = counter("http_requests_total", "Responses by route and status.", "route", "status");
    this.#requestSeconds = histogram(
      "http_request_seconds",
      "From a request's first byte to the last byte of its response.",
      REQUEST_SECONDS,
      "route",
    );
    this.#promptTokens = counter("prompt_tokens_total", "Prompt tokens, cached ones included.", "model");
    this.#cachedTokens = counter("cached_tokens_total", "Prompt tokens found in the KV cache.", "model");
    this.#generatedTokens = counter("generated_tokens_total", "Generated tokens.", "model");
    this.#draftedTokens = counter("draft_tokens_total", "Draft tokens that were verified.", "model");
    this.#acceptedTokens = counter("accepted_draft_tokens_total", "Draft tokens that were accepted.", "model");
    this.#firstTokenSeconds = histogram(
      "time_to_first_token_seconds",
      "From a request to its first token.",
      FIRST_TOKEN_SECONDS,
      "model",
    );
    this.#tokenSeconds = histogram(
      "inter_token_seconds",
      "Between two tokens of a choice, as the engine generates them.",
      TOKEN_SECONDS,
      "model",
    );
    this.#queueSeconds = histogram("queue_seconds", "From a request to its first step.", FIRST_TOKEN_SECONDS, "model");
    this.#declareGauges(sources);
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  text(): Promise<string> {
    return this.#registry.metrics();
  }

  countRequest({ route, status, seconds }: AnsweredRequest): void {
    const known = route ?? "other";
    this.#requests.inc({ route: known, status: String(status) });
    this.#requestSeconds.observe({ route: known }, seconds);
  }

  countCompletion(model: string, summary: CompletionSummary): void {
    this.#promptTokens.inc({ model }, summary.promptTokens);
    this.#cachedTokens.inc({ model }, summary.cachedTokens);
    this.#generatedTokens.inc({ model }, summary.generatedTokens);
    this.#draftedTokens.inc({ model }, summary.draftedTokens);
    this.#acceptedTokens.inc({ model }, summary.acceptedTokens);
    this.#queueSeconds.observe({ model }, summary.queuedMs / MS_PER_SECOND);
    if (summary.generatedTokens > 0)
      this.#firstTokenSeconds.observe({ model }, summary.timeToFirstTokenMs / MS_PER_SECOND);
  }

  countPrompt(model: string, tokens: number): void {
    this.#promptTokens.inc({ model }, tokens);
  }

  countTokenGap(model: string, milliseconds: number): void {
    this.#tokenSeconds.observe({ model }, milliseconds / MS_PER_SECOND);
  }

  #declareGauges({ pool, requestsInFlight, isReady, droppedLogLines }: MetricSources): void {
    const registers = [this.#registry];
    for (const { name, help, value } of ENGINE_METRICS) {
      const gauge: Gauge<"model"> = new Gauge({
        name: `rocmforge_${name}`,
        help,
        labelNames: ["model"],
        registers,
        collect: () => {
          // Models are loaded and unloaded.
          gauge.reset();
          for (const [model, statistics] of pool.statistics()) gauge.set({ model }, value(statistics));
        },
      });
    }
    const single = (name: string, help: string, value: () => number): void => {
      const gauge: Gauge = new Gauge({ name, help, registers, collect: () => gauge.set(value()) });
    };
    single("rocmforge_http_requests_in_flight", "Requests in flight.", requestsInFlight);
    single("rocmforge_ready", "1 if /health reports ok, 0 while the first model is loaded and warmed up.", () =>
      isReady() ? 1 : 0,
    );
    single(
      "rocmforge_models_loaded",
      "Models in memory.",
      () => pool.list().filter(({ state }) => state === "loaded").length,
    );
    const dropped: Counter = new Counter({
      name: "rocmforge_log_lines_dropped_total",
      help: "Log lines dropped because the destination did not accept them.",
      registers,
      collect: () => {
        dropped.reset();
        dropped.inc(droppedLogLines());
      },
    });
    single("process_resident_memory_bytes", "Resident memory of the process.", () => process.memoryUsage.rss());
  }
}
