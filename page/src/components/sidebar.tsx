// The conversations: new, search, list, export and import, theme.

import { useEffect, useRef, useState } from "preact/hooks";
import { apiKey } from "../api/client";
import { saveFile } from "../clipboard";
import type { Conversation } from "../chat/message";
import { conversations, exportChats, importChats, openConversation } from "../state/conversations";
import { isHelpOpen, isKeyDialogOpen, notify } from "../state/panels";
import { searchMessages } from "../store/database";
import { isSidebarOpen, type Theme, theme } from "../store/preferences";
import { ConversationItem } from "./conversation-item";
import { IconButton } from "./icon-button";
import { Icon, type IconName } from "./icons";

const SEARCH_DELAY_MS = 150;
const MAX_FOUND = 100;
const DAY_MS = 86_400_000;

export function Sidebar() {
  const [query, setQuery] = useState("");
  const excerpts = useSearch(query);
  const shown = conversations.value.filter(
    ({ id, title }) =>
      query.trim() === "" || excerpts.has(id) || title.toLowerCase().includes(query.trim().toLowerCase()),
  );
  return (
    <>
      <nav class="sidebar" aria-label="Conversations">
        <div class="brand">
          <BrandMark />
          <span>ROCmForge</span>
        </div>
        <button type="button" class="button new-chat" onClick={() => openConversation(undefined)}>
          <Icon name="plus" size={16} /> New chat
        </button>
        <label class="search">
          <Icon name="search" size={16} />
          <span class="offscreen">Search conversations</span>
          <input
            id="search"
            type="search"
            placeholder="Search"
            value={query}
            onInput={({ currentTarget }) => setQuery(currentTarget.value)}
          />
        </label>
        <div class="conversations">
          {shown.length === 0 && (
            <p class="hint">{query === "" ? "Conversations are kept in this browser." : "Nothing found."}</p>
          )}
          {groupsOf(shown).map(([name, group]) => (
            <section key={name}>
              <h2>{name}</h2>
              <ul>
                {group.map((conversation) => (
                  <ConversationItem
                    key={conversation.id}
                    conversation={conversation}
                    excerpt={query.trim() === "" ? undefined : excerpts.get(conversation.id)}
                  />
                ))}
              </ul>
            </section>
          ))}
        </div>
        <Footer />
      </nav>
      <button
        type="button"
        class="backdrop"
        aria-label="Hide conversations"
        onClick={() => (isSidebarOpen.value = false)}
      />
    </>
  );
}

/** The conversations whose messages contain the text, a moment after typing pauses. */
function useSearch(query: string): ReadonlyMap<string, string> {
  const [found, setFound] = useState<ReadonlyMap<string, string>>(new Map());
  useEffect(() => {
    if (query.trim() === "") return setFound(new Map());
    let isCurrent = true;
    const timer = setTimeout(() => {
      void searchMessages(query.trim(), MAX_FOUND).then((excerpts) => void (isCurrent && setFound(excerpts)));
    }, SEARCH_DELAY_MS);
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [query]);
  return found;
}

function groupsOf(list: readonly Conversation[]): readonly (readonly [string, readonly Conversation[]])[] {
  const today = new Date().setHours(0, 0, 0, 0);
  const nameOf = ({ updatedAt }: Conversation): string => {
    if (updatedAt >= today) return "Today";
    if (updatedAt >= today - DAY_MS) return "Yesterday";
    return updatedAt >= today - 7 * DAY_MS ? "This week" : "Earlier";
  };
  const groups = new Map<string, Conversation[]>();
  for (const conversation of list) {
    const name = nameOf(conversation);
    groups.set(name, [...(groups.get(name) ?? []), conversation]);
  }
  return [...groups];
}

const THEMES: Readonly<Record<Theme, { readonly icon: IconName; readonly next: Theme; readonly label: string }>> = {
  system: { icon: "screen", next: "light", label: "Theme: as the system" },
  light: { icon: "sun", next: "dark", label: "Theme: light" },
  dark: { icon: "moon", next: "system", label: "Theme: dark" },
};

function Footer() {
  const file = useRef<HTMLInputElement>(null);
  const { icon, next, label } = THEMES[theme.value];
  const read = async (chosen: File | undefined): Promise<void> => {
    if (chosen === undefined) return;
    try {
      const count = await importChats(await chosen.text());
      notify(`Imported ${count} ${count === 1 ? "conversation" : "conversations"}.`);
    } catch (error) {
      notify(error instanceof Error ? error.message : String(error));
    }
  };
  return (
    <footer>
      <IconButton icon={icon} label={label} onClick={() => (theme.value = next)} />
      <IconButton
        icon="download"
        label="Export all conversations"
        isDisabled={conversations.value.length === 0}
        onClick={() => void exportChats().then((text) => saveFile("rocmforge-chats.json", text, "application/json"))}
      />
      <IconButton icon="upload" label="Import conversations" onClick={() => file.current?.click()} />
      <input
        ref={file}
        class="offscreen"
        type="file"
        accept="application/json"
        tabIndex={-1}
        aria-label="File of conversations"
        onChange={({ currentTarget }) => {
          void read(currentTarget.files?.[0]);
          currentTarget.value = "";
        }}
      />
      {apiKey.value !== "" && <IconButton icon="key" label="API key" onClick={() => (isKeyDialogOpen.value = true)} />}
      <div class="spacer" />
      <IconButton icon="help" label="Keyboard shortcuts" onClick={() => (isHelpOpen.value = true)} />
    </footer>
  );
}

function BrandMark() {
  return (
    <svg class="brand-mark" viewBox="0 0 32 32" width="26" height="26" aria-hidden="true">
      <rect width="32" height="32" rx="8" />
      <path d="M9 22h14M11 18h10M16 7c3 3-1 4 1 7M12.500 10c2 2-.7 3 .7 5" />
    </svg>
  );
}
