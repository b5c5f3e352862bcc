// Copies a text and says so for a moment.

import { useEffect, useState } from "preact/hooks";
import { copyText } from "../clipboard";
import { notify } from "../state/panels";
import { IconButton } from "./icon-button";

const SHOWN_MS = 1500;

/** A button that copies `text`. */
export function CopyButton({ text, label }: { readonly text: string; readonly label: string }) {
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return undefined;
    const timer = setTimeout(() => setCopied(false), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [isCopied]);
  const copy = (): void => {
    copyText(text).then(
      () => setCopied(true),
      () => notify("The browser does not allow copying here."),
    );
  };
  return <IconButton icon={isCopied ? "check" : "copy"} label={isCopied ? "Copied" : label} size={16} onClick={copy} />;
}
