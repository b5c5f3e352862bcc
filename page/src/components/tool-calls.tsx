// The tools that an answer calls, with their arguments. This page runs no tools: the user gives each result, and the answer
// continues once all calls have one.

import { useState } from "preact/hooks";
import type { Message, ToolCall } from "../chat/message";
import { CodeBlock } from "../markdown/code-block";
import { generating, giveResult } from "../state/answers";
import { Icon } from "./icons";

interface ToolCallsProps {
  readonly message: Message;
  readonly openCalls: ReadonlySet<string>;
  readonly isGrowing: boolean;
}

export function ToolCalls({ message, openCalls, isGrowing }: ToolCallsProps) {
  const { toolCalls = [], conversationId } = message;
  const isBusy = generating.value.has(conversationId);
  return (
    <div class="tool-calls">
      {toolCalls.map((call) => (
        <section key={call.id} class="tool-call" aria-label={`Call of ${call.name}`}>
          <h3>
            <Icon name="tool" size={16} /> {call.name}
          </h3>
          <CodeBlock code={indented(call.arguments)} language="json" isGrowing={isGrowing} />
          {openCalls.has(call.id) && !isBusy && (
            <ResultForm call={call} conversationId={conversationId} isLast={openCalls.size === 1} />
          )}
        </section>
      ))}
    </div>
  );
}

interface ResultFormProps {
  readonly call: ToolCall;
  readonly conversationId: string;
  readonly isLast: boolean;
}

function ResultForm({ call, conversationId, isLast }: ResultFormProps) {
  const [text, setText] = useState("");
  const submit = (event: Event): void => {
    event.preventDefault();
    void giveResult(call, conversationId, text, isLast);
  };
  return (
    <form class="result-form" onSubmit={submit}>
      <label>
        Result of {call.name}
        <textarea rows={2} value={text} onInput={({ currentTarget }) => setText(currentTarget.value)} />
      </label>
      <button type="submit" class="button">
        {isLast ? "Give result and continue" : "Give result"}
      </button>
    </form>
  );
}

/** The result of a tool. */
export function ToolResult({ message }: { readonly message: Message }) {
  return (
    <details class="message tool-result">
      <summary>
        <Icon name="tool" size={15} /> Tool result
      </summary>
      <pre>{message.content}</pre>
    </details>
  );
}

/** Complete JSON on several lines; text that is still growing as it is. */
function indented(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), undefined, 2);
  } catch {
    return text;
  }
}
