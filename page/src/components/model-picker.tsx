// The model that questions go to, with its load state; a model that is not loaded can be loaded from here.

import type { ServedModel } from "../api/models";
import { formatCount } from "../format";
import { chooseModel, loadChosen, model, models, modelsError } from "../state/models";
import { Icon } from "./icons";

const STATE_TEXT = {
  loaded: "loaded",
  loading: "loading…",
  unloaded: "not loaded",
  failed: "failed to load",
} as const satisfies Record<ServedModel["state"], string>;

export function ModelPicker() {
  const chosen = model.value;
  if (chosen === undefined)
    return <p class="model-picker none">{modelsError.value === undefined ? "Looking for models…" : "No model"}</p>;
  return (
    <div class="model-picker">
      <span class={`state-dot ${chosen.state}`} aria-hidden="true" />
      {models.value.length === 1 ? (
        <span class="model-name">{chosen.id}</span>
      ) : (
        <label class="select">
          <span class="offscreen">Model</span>
          <select value={chosen.id} onChange={({ currentTarget }) => chooseModel(currentTarget.value)}>
            {models.value.map(({ id, state }) => (
              <option key={id} value={id}>
                {state === "loaded" ? id : `${id} (${STATE_TEXT[state]})`}
              </option>
            ))}
          </select>
          <Icon name="down" size={14} />
        </label>
      )}
      <span class="model-state" role="status">
        {chosen.state === "loaded"
          ? `${formatCount(chosen.context_length ?? 0)} tokens of context`
          : STATE_TEXT[chosen.state]}
      </span>
      {(chosen.state === "unloaded" || chosen.state === "failed") && (
        <button type="button" class="button small" onClick={() => void loadChosen(chosen.id)}>
          Load
        </button>
      )}
    </div>
  );
}
