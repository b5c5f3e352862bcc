// Formulas in Markdown: $…$ and \(…\) in a line, $$…$$ and \[…\] as blocks. A dollar sign begins a formula only if no
// space follows it and no digit follows its end, so that prices stay prices.

import type { TokenizerExtension, Tokens } from "marked";

/** A formula in TeX. */
export interface MathsToken extends Tokens.Generic {
  readonly type: "maths";
  readonly raw: string;
  readonly text: string;
  readonly isBlock: boolean;
}

const BLOCK = /^(?:\$\$([^]+?)\$\$|\\\[([^]+?)\\\])(?:[ \t]*(?:\n|$))/;
const INLINE = /^(?:\$\$([^$]+?)\$\$|\$(?![\s$])((?:\\.|[^\\$\n])+?)(?<!\s)\$(?!\d)|\\\(([^]+?)\\\))/;

function token(raw: string, text: string, isBlock: boolean): MathsToken {
  return { type: "maths", raw, text: text.trim(), isBlock };
}

/** The first place where `mark` matches; marked ends a paragraph or a text there and asks the tokenizer. */
function startAt(mark: RegExp): (source: string) => number | undefined {
  return (source) => {
    const at = source.search(mark);
    return at === -1 ? undefined : at;
  };
}

/** Extensions of marked's tokenizer. */
export const MATHS_EXTENSIONS: readonly TokenizerExtension[] = [
  {
    name: "maths",
    level: "block",
    start: startAt(/(?<=\n)(?:\$\$|\\\[)/),
    tokenizer: (source) => {
      const found = BLOCK.exec(source);
      return found === null ? undefined : token(found[0], found[1] ?? found[2] ?? "", true);
    },
  },
  {
    name: "maths",
    level: "inline",
    start: startAt(/\$|\\\(/),
    tokenizer: (source) => {
      const found = INLINE.exec(source);
      if (found === null) return undefined;
      return token(found[0], found[1] ?? found[2] ?? found[3] ?? "", found[1] !== undefined);
    },
  },
];
