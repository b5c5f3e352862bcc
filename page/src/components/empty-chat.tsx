// A conversation without messages: what is here, and questions to begin with.

import { ask } from "../state/answers";
import { model, modelsError } from "../state/models";
import { panel } from "../state/panels";

const SUGGESTIONS = [
  "Tell me a short story about a fox and a king.",
  "Explain how a KV cache works, with a small example.",
  "Write a TypeScript function that groups a list by a key.",
  "What is the difference between top-p and min-p sampling?",
] as const;

export function EmptyChat() {
  const chosen = model.value;
  return (
    <div class="empty-chat">
      <h1>{chosen === undefined ? "ROCmForge" : `Chat with ${chosen.id}`}</h1>
      {modelsError.value !== undefined && (
        <p class="failure" role="alert">
          {modelsError.value}
        </p>
      )}
      <p>
        Answers come from this server alone. Conversations are kept in your browser, and the page loads nothing from
        elsewhere.
      </p>
      {chosen !== undefined && (
        <ul class="suggestions" aria-label="Suggestions">
          {SUGGESTIONS.map((text) => (
            <li key={text}>
              <button type="button" onClick={() => void ask(text)}>
                {text}
              </button>
            </li>
          ))}
        </ul>
      )}
      {chosen !== undefined && chosen.state !== "loaded" && (
        <button type="button" class="button" onClick={() => (panel.value = "residency")}>
          Watch the model load
        </button>
      )}
    </div>
  );
}
