// GET /engine and GET /residency as events: what the server's engines are doing, and which tensors are loaded.

import { request } from "./client";
import { readEvents } from "./event-stream";
import type { ModelState } from "./models";
import { type ModelResidency, type StateChanges, withChanges } from "./residency";

/** What the engine of one model is doing. */
export interface EngineActivity {
  readonly running: number;
  readonly queued: number;
  readonly step: {
    readonly sequences: number;
    readonly prefill_tokens: number;
    readonly decode_tokens: number;
    readonly draft_tokens: number;
  };
  readonly generated_tokens_per_second: number | null;
  readonly kv_blocks: { readonly total: number; readonly free: number; readonly cached: number };
  /** Slots for recurrent states; null if the model has no recurrent layers. */
  readonly state_slots: {
    readonly total: number;
    readonly free: number;
    readonly checkpoints: number;
    readonly evicted_checkpoints: number;
    readonly bytes: number;
  } | null;
  readonly prompt_tokens: number;
  readonly cached_tokens: number;
  readonly computed_tokens: number;
  readonly generated_tokens: number;
  readonly draft_tokens: number;
  readonly accepted_draft_tokens: number;
  readonly steps: number;
  readonly steps_seconds: number;
  readonly preemptions: number;
  readonly warm_up: { readonly steps: number; readonly done: number };
}

/** A snapshot of the server. */
export interface EngineSnapshot {
  readonly status: string;
  readonly requests_in_flight: number;
  readonly memory_bytes: number;
  readonly models: readonly {
    readonly id: string;
    readonly state: ModelState;
    readonly context_length: number | null;
    readonly engine: EngineActivity | null;
  }[];
}

const EVENT_STREAM = "text/event-stream";

/** Snapshots as the engines' state changes. */
export async function* watchEngine(signal: AbortSignal): AsyncGenerator<EngineSnapshot, void, undefined> {
  const { body } = await request("/engine", { accept: EVENT_STREAM, signal });
  if (body === null) return;
  for await (const { data } of readEvents(body)) yield JSON.parse(data) as EngineSnapshot;
}

/** The residency of a model, again whenever a tensor's state has changed. */
export async function* watchResidency(
  model: string,
  signal: AbortSignal,
): AsyncGenerator<ModelResidency, void, undefined> {
  const { body } = await request(`/residency?model=${encodeURIComponent(model)}`, { accept: EVENT_STREAM, signal });
  if (body === null) return;
  let current: ModelResidency | undefined;
  for await (const { name, data } of readEvents(body)) {
    if (name === "tensors") current = JSON.parse(data) as ModelResidency;
    else if (current !== undefined) current = withChanges(current, JSON.parse(data) as StateChanges);
    if (current !== undefined) yield current;
  }
}
