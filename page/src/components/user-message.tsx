// A question: its text and attachments, and editing, which asks again beside the old question.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Message } from "../chat/message";
import type { BranchPosition } from "../chat/message-tree";
import { formatBytes } from "../format";
import { editQuestion, generating } from "../state/answers";
import { BranchSwitch } from "./branch-switch";
import { CopyButton } from "./copy-button";
import { IconButton } from "./icon-button";
import { Icon } from "./icons";

interface UserMessageProps {
  readonly message: Message;
  readonly position: BranchPosition;
}

export function UserMessage({ message, position }: UserMessageProps) {
  const [isEditing, setEditing] = useState(false);
  const isBusy = generating.value.has(message.conversationId);
  if (isEditing) return <QuestionEditor message={message} onDone={() => setEditing(false)} />;
  return (
    <article class="message user" aria-label="You" data-message={message.id}>
      {(message.attachments ?? []).map(({ name, text }) => (
        <details key={name} class="attachment">
          <summary>
            <Icon name="clip" size={15} /> {name} <span class="muted">{formatBytes(text.length)}</span>
          </summary>
          <pre>{text}</pre>
        </details>
      ))}
      {message.content !== "" && <div class="bubble">{message.content}</div>}
      <div class="message-actions">
        <BranchSwitch {...position} />
        <CopyButton text={message.content} label="Copy question" />
        <IconButton
          icon="edit"
          label="Edit question"
          class="edit-question"
          size={16}
          isDisabled={isBusy}
          onClick={() => setEditing(true)}
        />
      </div>
    </article>
  );
}

function QuestionEditor({ message, onDone }: { readonly message: Message; readonly onDone: () => void }) {
  const [text, setText] = useState(message.content);
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    field.current?.focus();
    field.current?.setSelectionRange(text.length, text.length);
  }, []);
  const submit = (event?: Event): void => {
    event?.preventDefault();
    onDone();
    if (text.trim() !== "") void editQuestion(message, text.trim());
  };
  return (
    <form class="message user editor" onSubmit={submit}>
      <textarea
        ref={field}
        aria-label="Edit question"
        value={text}
        rows={Math.min(12, text.split("\n").length + 1)}
        onInput={({ currentTarget }) => setText(currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter" && !event.shiftKey && !event.isComposing) submit(event);
          if (event.key === "Escape") {
            event.stopPropagation();
            onDone();
          }
        }}
      />
      <div class="editor-actions">
        <button type="button" class="button" onClick={onDone}>
          Cancel
        </button>
        <button type="submit" class="button primary">
          Ask again
        </button>
      </div>
    </form>
  );
}
