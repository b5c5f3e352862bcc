// What of the chosen model is resident: drawn layer by layer, each tensor as wide as its bytes, live while it loads. A
// layer opens to a table of its tensors.

import { useEffect, useRef, useState } from "preact/hooks";
import { watchResidency } from "../api/engine";
import type { ModelResidency } from "../api/residency";
import { formatBytes, formatCount } from "../format";
import { loadChosen, model, refreshModels } from "../state/models";
import { Bar } from "./bar";
import { LayerRow } from "./layer-row";
import { layersOf, type ResidencyTotals, totalsOf } from "./residency-summary";
import { useWatch } from "./use-watch";

export function ResidencyView() {
  const name = model.value?.id ?? "";
  const { value: residency, problem } = useWatch((signal) => watchResidency(name, signal), name);
  const [opened, setOpened] = useState<string>();
  const modelState = residency?.state;
  useEffect(() => {
    if (modelState !== undefined && modelState !== model.value?.state) void refreshModels();
  }, [modelState]);
  if (residency === undefined) return <p class="hint">{problem ?? "Connecting…"}</p>;
  if (residency.tensors.length === 0) return <NotLoaded residency={residency} />;
  const totals = totalsOf(residency);
  const layers = layersOf(residency);
  // The embedding and the output are often much larger than a layer, and would make all layers look small.
  const widest = Math.max(...layers.filter(({ isLayer }) => isLayer).map(({ bytes }) => bytes), 1);
  return (
    <div class="view residency">
      <p class="view-title">
        <span class={`state-dot ${residency.state}`} aria-hidden="true" />
        {residency.model}
        <span class="muted"> {residency.state}</span>
      </p>
      <Summary residency={residency} totals={totals} />
      <ul class="state-legend" aria-label="Colours">
        {(["resident", "arriving", "unloaded", "failed"] as const)
          .filter((state) => state !== "failed" || totals.count.failed > 0)
          .map((state) => (
            <li key={state}>
              <i class={`tensor ${state}`} aria-hidden="true" /> {totals.count[state]} {state}
            </li>
          ))}
      </ul>
      <ol class="layers" aria-label="Layers">
        {layers.map((layer) => (
          <LayerRow
            key={layer.name}
            layer={layer}
            share={Math.min(1, layer.bytes / widest)}
            device={residency.device ?? ""}
            isOpen={opened === layer.name}
            onToggle={() => setOpened(opened === layer.name ? undefined : layer.name)}
          />
        ))}
      </ol>
    </div>
  );
}

function NotLoaded({ residency: { model: name, state } }: { readonly residency: ModelResidency }) {
  return (
    <div class="view">
      <p class="view-title">
        <span class={`state-dot ${state}`} aria-hidden="true" />
        {name}
        <span class="muted"> {state}</span>
      </p>
      {state === "loading" ? (
        <p class="hint">The file is being opened…</p>
      ) : (
        <>
          <p class="hint">None of it is in memory. Its layers appear here as they arrive.</p>
          <button type="button" class="button" onClick={() => void loadChosen(name)}>
            Load {name}
          </button>
        </>
      )}
    </div>
  );
}

interface SummaryProps {
  readonly residency: ModelResidency;
  readonly totals: ResidencyTotals;
}

function Summary({ residency: { device }, totals }: SummaryProps) {
  const rate = useArrivalRate(totals.residentBytes);
  const isComplete = totals.count.resident === totals.tensors;
  return (
    <section class="card">
      <p class="figure">
        {formatBytes(totals.residentBytes)} <small>of {formatBytes(totals.bytes)}</small>
      </p>
      <Bar
        label="Bytes that are resident"
        parts={[{ name: "resident", value: totals.residentBytes, class: "used" }]}
        total={Math.max(1, totals.bytes)}
      />
      <p class="legend" role="status">
        {isComplete
          ? `All ${formatCount(totals.tensors)} tensors are resident.`
          : `${formatCount(totals.count.resident)} of ${formatCount(totals.tensors)} tensors${rate > 0 ? `, ${formatBytes(rate)}/s` : ""}`}
      </p>
      <p class="legend">
        {totals.types.map(([type, bytes]) => `${type} ${formatBytes(bytes)}`).join(" · ")}
        <br />
        {device}
        {isComplete && totals.deviceBytes === 0 ? "; read from the mapped file" : ""}
      </p>
    </section>
  );
}

const RATE_WINDOW_MS = 1500;

/** Bytes per second that arrived recently. */
function useArrivalRate(residentBytes: number): number {
  const samples = useRef<{ readonly atMs: number; readonly bytes: number }[]>([]);
  const [, redraw] = useState(0);
  const nowMs = performance.now();
  samples.current = [
    ...samples.current.filter(({ atMs }) => nowMs - atMs < RATE_WINDOW_MS),
    { atMs: nowMs, bytes: residentBytes },
  ];
  useEffect(() => {
    // Without new bytes there are no events, and the rate has to fall to zero by itself.
    const timer = setTimeout(() => redraw((count) => count + 1), RATE_WINDOW_MS);
    return () => clearTimeout(timer);
  }, [residentBytes]);
  const [first] = samples.current;
  if (first === undefined || nowMs - first.atMs < 100) return 0;
  return Math.max(0, ((residentBytes - first.bytes) * 1000) / (nowMs - first.atMs));
}
