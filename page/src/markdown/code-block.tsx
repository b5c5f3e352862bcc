// A block of code: its language, a button that copies it, and colours. The highlighter is loaded with the first block;
// until then, and for languages that it does not know, the code is plain.

import type { RootContent } from "hast";
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { CopyButton } from "../components/copy-button";

/** Longer code would make typing wait while it is coloured. */
const MAX_HIGHLIGHTED_CHARACTERS = 60_000;
const MAX_GROWING_CHARACTERS = 8000;

type Highlight = (code: string, language: string) => readonly RootContent[] | undefined;

let highlighter: Highlight | undefined;

async function loadHighlighter(): Promise<void> {
  ({ highlight: highlighter } = await import("./highlight"));
}

/** Code in a language, which may be empty. */
export function CodeBlock({
  code,
  language,
  isGrowing,
}: {
  readonly code: string;
  readonly language: string;
  readonly isGrowing: boolean;
}) {
  const [, redraw] = useState(0);
  useEffect(() => {
    if (highlighter === undefined) void loadHighlighter().then(() => redraw((count) => count + 1));
  }, []);
  const name = language.trim().split(/\s/, 1)[0] ?? "";
  const most = isGrowing ? MAX_GROWING_CHARACTERS : MAX_HIGHLIGHTED_CHARACTERS;
  const coloured = code.length > most ? undefined : highlighter?.(code, name);
  return (
    <figure class="code-block">
      <figcaption>
        <span>{name === "" ? "text" : name}</span>
        <CopyButton text={code} label="Copy code" />
      </figcaption>
      {/* Long lines scroll; the keyboard needs a stop for that. */}
      <pre tabIndex={0}>
        <code>{coloured === undefined ? code : coloured.map(elementOf)}</code>
      </pre>
    </figure>
  );
}

function elementOf(node: RootContent): ComponentChildren {
  if (node.type === "text") return node.value;
  if (node.type !== "element") return null;
  const { className } = node.properties;
  return <span class={Array.isArray(className) ? className.join(" ") : undefined}>{node.children.map(elementOf)}</span>;
}
