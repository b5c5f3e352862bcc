// How answers are generated: system prompt, sampling, reasoning, tools, and presets of all of these. They belong to the
// conversation that is shown; without one, to the next.

import { useState } from "preact/hooks";
import { parseTools } from "../chat/api-messages";
import type { ChatSettings } from "../chat/message";
import { changeSettings, current, settings } from "../state/conversations";
import { Presets } from "./presets";

interface NumberSetting {
  readonly key: "temperature" | "topP" | "topK" | "minP" | "repetitionPenalty" | "maxTokens" | "seed";
  readonly label: string;
  readonly hint: string;
  readonly min: number;
  readonly max?: number;
  readonly step: number;
}

const NUMBERS: readonly NumberSetting[] = [
  { key: "temperature", label: "Temperature", hint: "0 is always the likeliest token", min: 0, max: 5, step: 0.05 },
  {
    key: "topP",
    label: "Top-p",
    hint: "keeps the likeliest tokens up to this probability",
    min: 0,
    max: 1,
    step: 0.01,
  },
  { key: "topK", label: "Top-k", hint: "keeps this many tokens; 0 keeps all", min: 0, step: 1 },
  { key: "minP", label: "Min-p", hint: "drops tokens below this share of the best", min: 0, max: 1, step: 0.01 },
  { key: "repetitionPenalty", label: "Repetition penalty", hint: "1 is off", min: 0.01, max: 2, step: 0.01 },
  { key: "maxTokens", label: "Max tokens", hint: "of an answer; empty is until it ends", min: 1, step: 1 },
  { key: "seed", label: "Seed", hint: "the same seed gives the same answer", min: 0, step: 1 },
];

const REASONING: Readonly<Record<ChatSettings["reasoning"], string>> = {
  default: "As the model does",
  off: "Off",
  low: "Low effort",
  medium: "Medium effort",
  high: "High effort",
};

export function SettingsPanel() {
  const { systemPrompt, reasoning } = settings.value;
  return (
    <div class="form">
      <p class="hint">
        {current.value === undefined ? "For new conversations." : "For this conversation."} An empty field is the
        model’s own default.
      </p>
      <Presets />
      <label>
        System prompt
        <textarea
          rows={4}
          placeholder="You are…"
          value={systemPrompt}
          onChange={({ currentTarget }) => void changeSettings({ systemPrompt: currentTarget.value })}
        />
      </label>
      <fieldset class="numbers">
        <legend>Sampling</legend>
        {NUMBERS.map((setting) => (
          <NumberField key={setting.key} setting={setting} value={settings.value[setting.key]} />
        ))}
      </fieldset>
      <label>
        Reasoning
        <select
          value={reasoning}
          onChange={({ currentTarget }) =>
            void changeSettings({ reasoning: currentTarget.value as ChatSettings["reasoning"] })
          }
        >
          {Object.entries(REASONING).map(([value, text]) => (
            <option key={value} value={value}>
              {text}
            </option>
          ))}
        </select>
      </label>
      <ToolsField />
    </div>
  );
}

interface NumberFieldProps {
  readonly setting: NumberSetting;
  readonly value: number | undefined;
}

function NumberField({ setting: { key, label, hint, min, max, step }, value }: NumberFieldProps) {
  const change = (text: string): void => {
    const number = Number(text);
    const isValid = text.trim() !== "" && number >= min && number <= (max ?? Infinity);
    void changeSettings({ [key]: isValid ? number : undefined });
  };
  return (
    <label title={hint}>
      <span>{label}</span>
      <input
        type="number"
        inputMode="decimal"
        placeholder="default"
        min={min}
        max={max}
        step={step}
        value={value ?? ""}
        onChange={({ currentTarget }) => change(currentTarget.value)}
      />
    </label>
  );
}

function ToolsField() {
  const [problem, setProblem] = useState<string>();
  const change = (tools: string): void => {
    try {
      parseTools(tools);
      setProblem(undefined);
      void changeSettings({ tools });
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
  };
  return (
    <label>
      Tools
      <textarea
        class="code"
        rows={4}
        spellcheck={false}
        placeholder={'[{ "name": "weather", "parameters": { "type": "object" } }]'}
        value={settings.value.tools}
        aria-invalid={problem !== undefined}
        onChange={({ currentTarget }) => change(currentTarget.value)}
      />
      <span class="hint">
        {problem ?? "A JSON list of functions. The page shows the calls, and you give the results."}
      </span>
    </label>
  );
}
