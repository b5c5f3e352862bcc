// One conversation in the list: opens it, renames it, exports it, deletes it after asking.

import { useState } from "preact/hooks";
import { saveFile } from "../clipboard";
import type { Conversation } from "../chat/message";
import { generating } from "../state/answers";
import {
  currentId,
  deleteConversation,
  exportChats,
  openConversation,
  updateConversation,
} from "../state/conversations";
import { IconButton } from "./icon-button";

interface ConversationItemProps {
  readonly conversation: Conversation;
  /** Words around what was searched for. */
  readonly excerpt: string | undefined;
}

export function ConversationItem({ conversation, excerpt }: ConversationItemProps) {
  const { id, title } = conversation;
  const [isRenaming, setRenaming] = useState(false);
  const rename = (name: string): void => {
    setRenaming(false);
    if (name.trim() !== "" && name !== title) void updateConversation(id, { title: name.trim(), isNamed: true });
  };
  const remove = (): void => {
    if (confirm(`Delete “${title}”?`)) void deleteConversation(id);
  };
  const save = (): void =>
    void exportChats(id).then((text) =>
      saveFile(`${title.replaceAll(/[^\w-]+/g, "-")}.json`, text, "application/json"),
    );
  if (isRenaming)
    return (
      <li class="conversation">
        <input
          class="rename"
          aria-label="Title"
          value={title}
          ref={(input) => input?.focus()}
          onBlur={({ currentTarget }) => rename(currentTarget.value)}
          onKeyDown={({ key, currentTarget }) => {
            if (key === "Enter") rename(currentTarget.value);
            if (key === "Escape") setRenaming(false);
          }}
        />
      </li>
    );
  return (
    <li class={`conversation ${id === currentId.value ? "current" : ""}`}>
      <button
        type="button"
        class="open"
        aria-current={id === currentId.value ? "page" : undefined}
        onClick={() => openConversation(id)}
      >
        <span class="title">{title}</span>
        {excerpt !== undefined && <span class="excerpt">{excerpt}</span>}
      </button>
      {generating.value.has(id) && <span class="busy" role="img" aria-label="Generating" />}
      <div class="actions">
        <IconButton icon="edit" label={`Rename ${title}`} size={15} onClick={() => setRenaming(true)} />
        <IconButton icon="download" label={`Export ${title}`} size={15} onClick={save} />
        <IconButton icon="trash" label={`Delete ${title}`} size={15} onClick={remove} />
      </div>
    </li>
  );
}
