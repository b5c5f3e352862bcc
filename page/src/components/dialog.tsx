// A modal dialog: the browser's own element, which keeps the focus inside and closes with Escape.

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { IconButton } from "./icon-button";

interface DialogProps {
  readonly title: string;
  readonly isOpen: boolean;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
}

/** A modal dialog with a title. */
export function Dialog({ title, isOpen, onClose, children }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    if (isOpen && element.current?.open === false) element.current.showModal();
    if (!isOpen) element.current?.close();
  }, [isOpen]);
  return (
    <dialog
      ref={element}
      class="dialog"
      aria-labelledby="dialog-title"
      onCancel={(event) => {
        // Escape; the state alone decides what is open, so that the two cannot differ.
        event.preventDefault();
        onClose();
      }}
    >
      {isOpen && (
        <>
          <header>
            <h2 id="dialog-title">{title}</h2>
            <IconButton icon="close" label="Close" onClick={onClose} />
          </header>
          {children}
        </>
      )}
    </dialog>
  );
}
