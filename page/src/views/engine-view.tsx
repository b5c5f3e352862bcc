// What the engine of the chosen model is doing now: queue, batch of the running step, speed, prefix cache, KV cache.

import { useRef } from "preact/hooks";
import { type EngineActivity, type EngineSnapshot, watchEngine } from "../api/engine";
import { formatBytes, formatCount, formatRate } from "../format";
import { model } from "../state/models";
import { Bar } from "./bar";
import { Sparkline } from "./sparkline";
import { useWatch } from "./use-watch";

/** Samples of the curve: two minutes at two samples per second. */
const MAX_SAMPLES = 240;

export function EngineView() {
  const { value: snapshot, problem } = useWatch(watchEngine, "engine");
  const chosen = snapshot?.models.find(({ id }) => id === model.value?.id) ?? snapshot?.models[0];
  if (snapshot === undefined || chosen === undefined) return <p class="hint">{problem ?? "Connecting…"}</p>;
  return (
    <div class="view">
      <p class="view-title">
        <span class={`state-dot ${chosen.state}`} aria-hidden="true" />
        {chosen.id}
        <span class="muted"> {chosen.state}</span>
      </p>
      {chosen.engine === null ? (
        <p class="hint">The model is not in memory. The first question loads it.</p>
      ) : (
        <Activity engine={chosen.engine} key={chosen.id} />
      )}
      <ServerFacts snapshot={snapshot} />
    </div>
  );
}

function Activity({ engine }: { readonly engine: EngineActivity }) {
  const rates = useRef<number[]>([]);
  const last = useRef<EngineActivity | undefined>(undefined);
  if (last.current !== engine) {
    last.current = engine;
    rates.current = [...rates.current, engine.generated_tokens_per_second ?? 0].slice(-MAX_SAMPLES);
  }
  const { step, kv_blocks: blocks, state_slots: slots, warm_up: warmUp } = engine;
  const used = blocks.total - blocks.free - blocks.cached;
  const share = (count: number): string =>
    blocks.total === 0 ? "0" : String(Math.round((100 * count) / blocks.total));
  return (
    <>
      <section class="card">
        <h3>Speed</h3>
        <p class="figure">
          {formatRate(engine.generated_tokens_per_second ?? 0)} <small>tokens/s, all sequences together</small>
        </p>
        <Sparkline values={rates.current} label="Tokens per second in the last two minutes" />
      </section>
      <div class="card-row">
        <section class="card">
          <h3>Running</h3>
          <p class="figure">
            {engine.running} <small>{engine.running === 1 ? "sequence" : "sequences"}</small>
          </p>
        </section>
        <section class="card">
          <h3>Queue</h3>
          <p class="figure">
            {engine.queued} <small>waiting</small>
          </p>
        </section>
      </div>
      <section class="card">
        <h3>Batch of the running step</h3>
        <Bar
          label="Tokens of the running step"
          parts={[
            { name: "decode", value: step.decode_tokens, class: "decode" },
            { name: "draft", value: step.draft_tokens, class: "cached" },
            { name: "prefill", value: step.prefill_tokens, class: "prefill" },
          ]}
          total={Math.max(1, step.decode_tokens + step.draft_tokens + step.prefill_tokens)}
        />
        <p class="legend">
          {step.sequences === 0
            ? "No step is running."
            : `${step.sequences} ${step.sequences === 1 ? "sequence" : "sequences"}: ${step.decode_tokens} decode, ${step.draft_tokens === 0 ? "" : `${step.draft_tokens} draft, `}${formatCount(step.prefill_tokens)} prefill tokens`}
        </p>
      </section>
      <section class="card">
        <h3>Prefix cache</h3>
        <Bar
          label="Prompt tokens from the prefix cache"
          parts={[{ name: "hits", value: engine.cached_tokens, class: "cached" }]}
          total={Math.max(1, engine.prompt_tokens)}
        />
        <p class="legend">
          {formatCount(engine.cached_tokens)} of {formatCount(engine.prompt_tokens)} prompt tokens were found
        </p>
      </section>
      <section class="card">
        <h3>KV cache</h3>
        <Bar
          label="Blocks of the KV cache"
          parts={[
            { name: "in use", value: used, class: "used" },
            { name: "cached", value: blocks.cached, class: "cached" },
          ]}
          total={Math.max(1, blocks.total)}
        />
        <p class="legend">
          {formatCount(blocks.total)} blocks: {share(used)} % in use, {share(blocks.cached)} % kept for prefixes
        </p>
      </section>
      {slots !== null && (
        <section class="card">
          <h3>Recurrent states</h3>
          <Bar
            label="Slots for recurrent states"
            parts={[
              { name: "in use", value: Math.max(0, slots.total - slots.free - slots.checkpoints), class: "used" },
              { name: "checkpoints", value: slots.checkpoints, class: "cached" },
            ]}
            total={Math.max(1, slots.total)}
          />
          <p class="legend">
            {formatCount(slots.total)} slots of {formatBytes(slots.bytes / Math.max(1, slots.total))}:{" "}
            {formatCount(slots.checkpoints)} checkpoints kept, {formatCount(slots.evicted_checkpoints)} evicted
          </p>
        </section>
      )}
      {warmUp.done < warmUp.steps && (
        <section class="card">
          <h3>Warm-up</h3>
          <Bar
            label="Steps of the warm-up"
            parts={[{ name: "done", value: warmUp.done, class: "decode" }]}
            total={warmUp.steps}
          />
        </section>
      )}
      <dl class="facts">
        <Fact name="Steps" value={formatCount(engine.steps)} />
        <Fact
          name="Mean step"
          value={engine.steps === 0 ? "–" : `${((1000 * engine.steps_seconds) / engine.steps).toFixed(1)} ms`}
        />
        <Fact name="Generated" value={`${formatCount(engine.generated_tokens)} tokens`} />
        <Fact
          name="Accepted drafts"
          value={
            engine.draft_tokens === 0
              ? "–"
              : `${Math.round((100 * engine.accepted_draft_tokens) / engine.draft_tokens)} % of ${formatCount(engine.draft_tokens)}`
          }
        />
        <Fact name="Preemptions" value={formatCount(engine.preemptions)} />
      </dl>
    </>
  );
}

function ServerFacts({ snapshot }: { readonly snapshot: EngineSnapshot }) {
  return (
    <dl class="facts">
      <Fact name="Server" value={snapshot.status} />
      <Fact name="In-flight requests" value={formatCount(snapshot.requests_in_flight)} />
      <Fact name="Memory of the process" value={formatBytes(snapshot.memory_bytes)} />
    </dl>
  );
}

function Fact({ name, value }: { readonly name: string; readonly value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}
