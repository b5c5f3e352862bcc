// How much of the context the conversation fills, from the token counts of its last answer.

import { formatCount, formatShort } from "../format";
import { branch } from "../state/conversations";
import { model } from "../state/models";

const NEARLY_FULL = 0.85;

export function ContextGauge() {
  const most = model.value?.context_length ?? 0;
  const usage = branch.value.findLast((message) => message.usage !== undefined)?.usage;
  if (most === 0 || usage === undefined) return null;
  const used = usage.promptTokens + usage.completionTokens;
  const share = Math.min(1, used / most);
  return (
    <div
      class={`context-gauge ${share > NEARLY_FULL ? "full" : ""}`}
      title={`${formatCount(used)} of ${formatCount(most)} tokens of the context are used`}
    >
      <meter class="offscreen" min={0} max={most} value={used} aria-label="Context used">
        {used} of {most} tokens
      </meter>
      <span class="track" aria-hidden="true">
        <span style={{ width: `${share * 100}%` }} />
      </span>
      <span aria-hidden="true">
        {formatShort(used)} / {formatShort(most)}
      </span>
    </div>
  );
}
