// Named settings: choose one, save the present settings under a name, delete one.

import { useState } from "preact/hooks";
import { DEFAULT_SETTINGS, type ChatSettings } from "../chat/message";
import { changeSettings, settings } from "../state/conversations";
import { presets } from "../store/preferences";
import { IconButton } from "./icon-button";

/** Every field, so that a preset without one clears it. */
const CLEARED = {
  ...DEFAULT_SETTINGS,
  temperature: undefined,
  topP: undefined,
  topK: undefined,
  minP: undefined,
  repetitionPenalty: undefined,
  maxTokens: undefined,
  seed: undefined,
};

export function Presets() {
  const [name, setName] = useState("");
  const chosen = presets.value.find((preset) => isSame(preset.settings, settings.value));
  const choose = (wanted: string): void => {
    const preset = presets.value.find((each) => each.name === wanted);
    if (preset !== undefined) void changeSettings({ ...CLEARED, ...preset.settings } as Partial<ChatSettings>);
  };
  const save = (event: Event): void => {
    event.preventDefault();
    const trimmed = name.trim();
    if (trimmed === "") return;
    presets.value = [
      ...presets.value.filter((preset) => preset.name !== trimmed),
      { name: trimmed, settings: settings.value },
    ];
    setName("");
  };
  return (
    <div class="presets">
      <div class="row">
        <label>
          Preset
          <select value={chosen?.name ?? ""} onChange={({ currentTarget }) => choose(currentTarget.value)}>
            <option value="" disabled>
              Own settings
            </option>
            {presets.value.map((preset) => (
              <option key={preset.name} value={preset.name}>
                {preset.name}
              </option>
            ))}
          </select>
        </label>
        {chosen !== undefined && (
          <IconButton
            icon="trash"
            label={`Delete preset ${chosen.name}`}
            onClick={() => (presets.value = presets.value.filter(({ name: each }) => each !== chosen.name))}
          />
        )}
      </div>
      {chosen === undefined && (
        <form class="row" onSubmit={save}>
          <label>
            Save as
            <input value={name} placeholder="Name" onInput={({ currentTarget }) => setName(currentTarget.value)} />
          </label>
          <button type="submit" class="button" disabled={name.trim() === ""}>
            Save
          </button>
        </form>
      )}
    </div>
  );
}

function isSame(one: ChatSettings, other: ChatSettings): boolean {
  const text = (value: ChatSettings): string => JSON.stringify(Object.entries(value).sort());
  return text(one) === text(other);
}
