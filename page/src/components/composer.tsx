// The field for the next question: text, attached files, send or stop, and how full the context is.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Attachment } from "../chat/message";
import { ask, generating, stop } from "../state/answers";
import { branch, currentId } from "../state/conversations";
import { model } from "../state/models";
import { notify } from "../state/panels";
import { readAttachments } from "../chat/attachments";
import { ContextGauge } from "./context-gauge";
import { IconButton } from "./icon-button";
import { Icon } from "./icons";

const MAX_HEIGHT_PIXELS = 260;

export function Composer() {
  const [text, setText] = useState("");
  const [attachments, setAttachments] = useState<readonly Attachment[]>([]);
  const [filesBeingRead, setFilesBeingRead] = useState(0);
  const field = useRef<HTMLTextAreaElement>(null);
  const isBusy = currentId.value !== undefined && generating.value.has(currentId.value);
  // A question is not sent without a file that is still being read.
  const isReady = !isBusy && filesBeingRead === 0 && model.value !== undefined;
  const canSend = isReady && (text.trim() !== "" || attachments.length > 0);

  useLayoutEffect(() => {
    const { current: element } = field;
    if (element === null) return;
    element.style.height = "auto";
    element.style.height = `${Math.min(MAX_HEIGHT_PIXELS, element.scrollHeight)}px`;
  }, [text]);
  useLayoutEffect(() => field.current?.focus(), [currentId.value]);

  const send = (): void => {
    if (!canSend) return;
    setText("");
    setAttachments([]);
    void ask(text.trim(), attachments);
  };
  const attach = async (files: Iterable<File>): Promise<void> => {
    const given = [...files];
    setFilesBeingRead((count) => count + given.length);
    const { read, problems } = await readAttachments(given);
    setFilesBeingRead((count) => count - given.length);
    setAttachments((old) => [...old, ...read]);
    if (problems.length > 0) notify(problems.join("; "));
  };
  const isDragging = useDroppedFiles((files) => void attach(files));
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      send();
    } else if (event.key === "ArrowUp" && text === "" && branch.value.length > 0) {
      event.preventDefault();
      [...document.querySelectorAll<HTMLButtonElement>(".edit-question")].at(-1)?.click();
    }
  };
  return (
    <form
      class={`composer ${isDragging ? "dragging" : ""}`}
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      {attachments.length > 0 && (
        <ul class="attachments" aria-label="Attachments">
          {attachments.map(({ name }, index) => (
            <li key={index}>
              <Icon name="clip" size={14} /> {name}
              <IconButton
                icon="close"
                label={`Remove ${name}`}
                size={13}
                onClick={() => setAttachments((old) => old.filter((_, at) => at !== index))}
              />
            </li>
          ))}
        </ul>
      )}
      {filesBeingRead > 0 && (
        <p class="attachments" role="status">
          Reading {filesBeingRead === 1 ? "the file" : `${filesBeingRead} files`}…
        </p>
      )}
      <textarea
        ref={field}
        rows={1}
        aria-label="Your question"
        placeholder={model.value === undefined ? "Waiting for a model…" : "Ask anything"}
        value={text}
        onInput={({ currentTarget }) => setText(currentTarget.value)}
        onKeyDown={onKeyDown}
        onPaste={(event) => {
          const files = [...(event.clipboardData?.files ?? [])];
          if (files.length === 0) return;
          event.preventDefault();
          void attach(files);
        }}
      />
      <div class="composer-actions">
        <AttachButton onFiles={(files) => void attach(files)} />
        <ContextGauge />
        <div class="spacer" />
        {isBusy ? (
          <IconButton class="send stop" icon="stop" label="Stop generating" onClick={() => stop()} />
        ) : (
          <IconButton class="send" icon="send" label="Send" isDisabled={!canSend} onClick={send} />
        )}
      </div>
    </form>
  );
}

/** Takes files that are dropped anywhere on the page; true while some are dragged over it. */
function useDroppedFiles(onFiles: (files: readonly File[]) => void): boolean {
  const [isDragging, setDragging] = useState(false);
  const latest = useRef(onFiles);
  latest.current = onFiles;
  useEffect(() => {
    const listening = new AbortController();
    const { signal } = listening;
    const over = (event: DragEvent): void => {
      event.preventDefault();
      setDragging(true);
    };
    const drop = (event: DragEvent): void => {
      event.preventDefault();
      setDragging(false);
      latest.current([...(event.dataTransfer?.files ?? [])]);
    };
    addEventListener("dragover", over, { signal });
    addEventListener("dragleave", () => setDragging(false), { signal });
    addEventListener("drop", drop, { signal });
    return () => listening.abort();
  }, []);
  return isDragging;
}

function AttachButton({ onFiles }: { readonly onFiles: (files: readonly File[]) => void }) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <IconButton icon="clip" label="Attach text or PDF files" onClick={() => input.current?.click()} />
      <input
        ref={input}
        class="offscreen"
        type="file"
        multiple
        tabIndex={-1}
        aria-label="Text and PDF files"
        onChange={({ currentTarget }) => {
          onFiles([...(currentTarget.files ?? [])]);
          currentTarget.value = "";
        }}
      />
    </>
  );
}
