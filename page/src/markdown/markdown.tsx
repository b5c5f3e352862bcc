// Markdown as elements. The text is split into tokens and these become elements directly: there is no HTML in between, so
// whatever a model writes, nothing of it can become a script, a style or a request to another server.

import { Marked, type Token, type Tokens } from "marked";
import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { CodeBlock } from "./code-block";
import { decodeEntities } from "./entities";
import { Formula } from "./formula";
import { MATHS_EXTENSIONS, type MathsToken } from "./maths";

const marked = new Marked({ gfm: true, breaks: false }, { extensions: [...MATHS_EXTENSIONS] });

/** A text in Markdown; blocks that have not changed are not drawn again while the text grows. */
export function Markdown({ text, isGrowing = false }: { readonly text: string; readonly isGrowing?: boolean }) {
  const tokens = useMemo(() => marked.lexer(text), [text]);
  return (
    <div class="markdown">
      {tokens.map((token, index) => (
        <Block key={index} token={token} isGrowing={isGrowing && index === tokens.length - 1} />
      ))}
    </div>
  );
}

function Block({ token, isGrowing }: { readonly token: Token; readonly isGrowing: boolean }) {
  // The same element again tells Preact that nothing below has changed.
  return useMemo(() => <>{blockOf(token, isGrowing)}</>, [token.raw, isGrowing]);
}

function blockOf(token: Token, isGrowing = false): ComponentChildren {
  switch (token.type) {
    case "heading":
      return heading(token as Tokens.Heading);
    case "paragraph":
      return <p>{inline((token as Tokens.Paragraph).tokens)}</p>;
    case "code":
      return (
        <CodeBlock
          code={(token as Tokens.Code).text}
          language={(token as Tokens.Code).lang ?? ""}
          isGrowing={isGrowing}
        />
      );
    case "blockquote":
      return <blockquote>{(token as Tokens.Blockquote).tokens.map((each) => blockOf(each))}</blockquote>;
    case "list":
      return list(token as Tokens.List);
    case "table":
      return table(token as Tokens.Table);
    case "hr":
      return <hr />;
    case "maths":
      return <Formula tex={(token as MathsToken).text} isBlock />;
    case "html":
      return <p>{htmlText(token.raw)}</p>;
    case "text":
      return (token as Tokens.Text).tokens === undefined
        ? decodeEntities((token as Tokens.Text).text)
        : inline((token as Tokens.Text).tokens);
    default:
      return null;
  }
}

function heading({ depth, tokens }: Tokens.Heading): ComponentChildren {
  // The page's own heading is the first level.
  const Level = `h${Math.min(6, depth + 1)}` as "h2";
  return <Level>{inline(tokens)}</Level>;
}

function list({ ordered, start, items }: Tokens.List): ComponentChildren {
  const children = items.map((item, index) => (
    <li key={index} class={item.task ? "task" : undefined}>
      {item.task && (
        <span aria-label={item.checked === true ? "done" : "to do"}>{item.checked === true ? "☑ " : "☐ "}</span>
      )}
      {item.tokens.map((token) => (token.type === "checkbox" ? null : blockOf(token)))}
    </li>
  ));
  return ordered ? <ol start={typeof start === "number" ? start : 1}>{children}</ol> : <ul>{children}</ul>;
}

function table({ header, rows, align }: Tokens.Table): ComponentChildren {
  const classOf = (column: number): string | undefined => {
    const side = align[column];
    return side === null || side === undefined ? undefined : `align-${side}`;
  };
  return (
    // A wide table scrolls; the keyboard needs a stop for that.
    <div class="table-scroll" role="region" aria-label="Table" tabIndex={0}>
      <table>
        <thead>
          <tr>
            {header.map((cell, column) => (
              <th key={column} class={classOf(column)}>
                {inline(cell.tokens)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, index) => (
            <tr key={index}>
              {row.map((cell, column) => (
                <td key={column} class={classOf(column)}>
                  {inline(cell.tokens)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function inline(tokens: readonly Token[] = []): ComponentChildren {
  return tokens.map(inlineOf);
}

function inlineOf(token: Token): ComponentChildren {
  switch (token.type) {
    case "strong":
      return <strong>{inline((token as Tokens.Strong).tokens)}</strong>;
    case "em":
      return <em>{inline((token as Tokens.Em).tokens)}</em>;
    case "del":
      return <del>{inline((token as Tokens.Del).tokens)}</del>;
    case "codespan":
      return <code>{(token as Tokens.Codespan).text}</code>;
    case "br":
      return <br />;
    case "link":
      return link(token as Tokens.Link);
    case "image":
      return image(token as Tokens.Image);
    case "maths":
      return <Formula tex={(token as MathsToken).text} isBlock={(token as MathsToken).isBlock} />;
    case "html":
      return htmlText(token.raw);
    case "escape":
      return (token as Tokens.Escape).text;
    case "text": {
      const { tokens: own, text } = token as Tokens.Text;
      return own === undefined ? decodeEntities(text) : inline(own);
    }
    default:
      return token.raw;
  }
}

/** Tags are shown as they are written; a line break is the one that models use in tables. */
function htmlText(raw: string): ComponentChildren {
  return /^<br\s*\/?>$/i.test(raw.trim()) ? <br /> : raw;
}

function link({ href, title, tokens }: Tokens.Link): ComponentChildren {
  if (!/^(?:https?:|mailto:)/i.test(href)) return inline(tokens);
  return (
    <a href={href} title={title ?? undefined} target="_blank" rel="noopener noreferrer">
      {inline(tokens)}
    </a>
  );
}

/** An image of another server would tell it that the answer was read, so it becomes a link. */
function image({ href, text }: Tokens.Image): ComponentChildren {
  if (/^data:image\/(?:png|jpeg|gif|webp);base64,/i.test(href)) return <img src={href} alt={text} />;
  if (!/^https?:/i.test(href)) return text;
  return (
    <a href={href} target="_blank" rel="noopener noreferrer">
      {text === "" ? href : text} (image)
    </a>
  );
}
