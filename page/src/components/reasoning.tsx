// What a model thought before its answer, folded once the answer begins, with the time it took.

import { useEffect, useState } from "preact/hooks";
import { formatMs } from "../format";
import { Markdown } from "../markdown/markdown";
import { Icon } from "./icons";

interface ReasoningProps {
  readonly text: string;
  /** Undefined while the model is thinking. */
  readonly durationMs: number | undefined;
  readonly isGrowing: boolean;
}

export function Reasoning({ text, durationMs, isGrowing }: ReasoningProps) {
  const isThinking = isGrowing && durationMs === undefined;
  const [isOpen, setOpen] = useState(isThinking);
  useEffect(() => {
    if (!isThinking) setOpen(false);
  }, [isThinking]);
  return (
    <details class="reasoning" open={isOpen} onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>
        <Icon name="bulb" size={16} />
        {isThinking ? "Thinking…" : `Thought for ${formatMs(durationMs ?? 0)}`}
      </summary>
      {isOpen && <Markdown text={text} isGrowing={isThinking} />}
    </details>
  );
}
