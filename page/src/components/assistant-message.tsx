// An answer: reasoning, text, tool calls, how it ended, and what it took.

import { useEffect, useState } from "preact/hooks";
import type { Message } from "../chat/message";
import type { BranchPosition } from "../chat/message-tree";
import { formatCount, formatMs, formatRate } from "../format";
import { Markdown } from "../markdown/markdown";
import { generating, regenerate } from "../state/answers";
import { models } from "../state/models";
import { BranchSwitch } from "./branch-switch";
import { CopyButton } from "./copy-button";
import { IconButton } from "./icon-button";
import { QueuePlace } from "./queue-place";
import { Reasoning } from "./reasoning";
import { ToolCalls } from "./tool-calls";

/** Shorter times say nothing about speed. */
const SHORTEST_MEASURED_MS = 20;
/** Most answers begin within this time, and their place in the queue is not asked for. */
const SHORT_WAIT_MS = 1000;

interface AssistantMessageProps {
  readonly message: Message;
  readonly position: BranchPosition;
  /** Calls that have no result yet. */
  readonly openCalls: ReadonlySet<string>;
  readonly isGrowing: boolean;
}

export function AssistantMessage({ message, position, openCalls, isGrowing }: AssistantMessageProps) {
  const { content, reasoning, reasoningMs, toolCalls = [], error, model } = message;
  const isBusy = generating.value.has(message.conversationId);
  const isEmpty = content === "" && reasoning === undefined && toolCalls.length === 0;
  return (
    <article class="message assistant" aria-label={`Answer of ${model ?? "the model"}`} aria-busy={isGrowing}>
      {reasoning !== undefined && <Reasoning text={reasoning} durationMs={reasoningMs} isGrowing={isGrowing} />}
      {isGrowing && isEmpty && <Waiting model={model ?? ""} />}
      {content !== "" && <Markdown text={content} isGrowing={isGrowing} />}
      {toolCalls.length > 0 && <ToolCalls message={message} openCalls={openCalls} isGrowing={isGrowing} />}
      {error !== undefined && (
        <p class="failure" role="alert">
          {error}
        </p>
      )}
      {!isGrowing && (
        <div class="message-actions">
          <BranchSwitch {...position} />
          {content !== "" && <CopyButton text={content} label="Copy answer" />}
          <IconButton
            icon="retry"
            label="Regenerate"
            size={16}
            isDisabled={isBusy}
            onClick={() => void regenerate(message)}
          />
          <span class="answer-facts">{factsOf(message)}</span>
        </div>
      )}
    </article>
  );
}

function Waiting({ model }: { readonly model: string }) {
  const isLoading = models.value.find(({ id }) => id === model)?.state === "loading";
  const [isLong, setLong] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLong(true), SHORT_WAIT_MS);
    return () => clearTimeout(timer);
  }, []);
  return (
    <p class="waiting" role="status">
      <span class="dots" aria-hidden="true">
        <i />
        <i />
        <i />
      </span>
      {isLoading ? `Loading ${model}…` : <span class="offscreen">Waiting for the first token</span>}
      {!isLoading && isLong && <QueuePlace model={model} />}
    </p>
  );
}

/** Tokens, speed, time to the first token, and why it ended if that is worth saying. */
function factsOf({ usage, timings, end }: Message): string {
  const facts: string[] = [];
  if (usage !== undefined) {
    facts.push(`${formatCount(usage.completionTokens)} tokens`);
    if (timings !== undefined && timings.generationMs > SHORTEST_MEASURED_MS && usage.completionTokens > 1)
      facts.push(`${formatRate(((usage.completionTokens - 1) * 1000) / timings.generationMs)} tokens/s`);
  }
  if (timings !== undefined && end !== "error") facts.push(`first after ${formatMs(timings.firstTokenMs)}`);
  if (usage !== undefined && usage.cachedTokens > 0) facts.push(`${formatCount(usage.cachedTokens)} cached`);
  if (end === "stopped" || end === undefined) facts.push("stopped");
  if (end === "length") facts.push("cut off at the length limit");
  return facts.join(" · ");
}
