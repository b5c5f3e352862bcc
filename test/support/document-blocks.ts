// The fenced blocks of the README and of the pages of docs/, from which tests run what readers copy. A comment right before
// a block says more about it:
//   <!-- not run: REASON -->     it cannot run in a test, and why
//   <!-- partly run: REASON -->  some of its commands cannot, and why
//   <!-- continues -->           it is the rest of the program of the block before it

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const BLOCK = /(?:^<!-- (?<marker>.*) -->\n)?^```(?<language>\S*)\n(?<text>[^]*?)^```$/gm;
const NOT_RUN = /^not run: (?<reason>\S.*)$/;
const PARTLY_RUN = /^partly run: (?<reason>\S.*)$/;
const CONTINUES = "continues";

export interface DocumentBlock {
  /** The page's path in the repository, and the line of the block's first line. */
  readonly page: string;
  readonly line: number;
  readonly language: string;
  readonly text: string;
  /** Why no test runs it, if none does. */
  readonly notRun: string | undefined;
  /** Why tests do not run all of its commands, if they do not. */
  readonly partlyRun: string | undefined;
  readonly continues: boolean;
}

const pagesIn = (folder: string): readonly string[] =>
  readdirSync(join(ROOT, folder))
    .filter((name) => name.endsWith(".md"))
    .map((name) => `${folder}/${name}`);

/** The README, and every page but the generated reference and the decisions. */
export const GUIDE_PAGES: readonly string[] = ["README.md", ...pagesIn("docs/guide"), ...pagesIn("docs")];

/** The blocks of a page; throws at a comment before one that looks like a marker and is none. */
function blocksOf(page: string): readonly DocumentBlock[] {
  const content = readFileSync(join(ROOT, page), "utf8");
  return [...content.matchAll(BLOCK)].map(({ index, 0: whole, groups }) => {
    const { marker, language = "", text = "" } = groups ?? {};
    const opening = whole.indexOf("```");
    const line = content.slice(0, index + opening).split("\n").length + 1;
    const notRun = NOT_RUN.exec(marker ?? "")?.groups?.["reason"];
    const partlyRun = PARTLY_RUN.exec(marker ?? "")?.groups?.["reason"];
    if (marker !== undefined && marker !== CONTINUES && (notRun ?? partlyRun) === undefined)
      throw new Error(
        `${page}:${line}: the comment before a block is "not run: REASON", "partly run: REASON" or "continues", not ${marker}`,
      );
    return { page, line, language, text, notRun, partlyRun, continues: marker === CONTINUES };
  });
}

/** All blocks, in order. */
export const DOCUMENT_BLOCKS: readonly DocumentBlock[] = GUIDE_PAGES.flatMap(blocksOf);

/** Quoted text, an escaped character, a comment, anything else: a command ends at a line end that is none of these. */
const COMMAND = /^(?:'[^']*'|"(?:[^"\\]|\\[^])*"|\\[^]|(?<=\s)#.*|[^'"\\\n])+$/gm;

/** The commands of a shell block, each with its comment: lines that end in \ or stand in quotes go on. */
export function commandsOf({ page, line, text }: DocumentBlock): readonly string[] {
  const commands = text.match(COMMAND) ?? [];
  if (commands.join("\n").length !== text.trim().replaceAll(/\n{2,}/g, "\n").length)
    throw new Error(`${page}:${line}: a line of this block is not a whole command`);
  return commands.filter((command) => !command.startsWith("#"));
}

/** A command without the comment behind it. */
export const withoutComment = (command: string): string => command.replace(/\s+#[^'"\n]*(?:\n|$)/, "").trim();

/** The commands of all shell blocks that tests run. */
export const SHELL_COMMANDS: readonly { readonly page: string; readonly command: string }[] = DOCUMENT_BLOCKS.filter(
  ({ language, notRun }) => language === "sh" && notRun === undefined,
).flatMap((block) => commandsOf(block).map((command) => ({ page: block.page, command })));

/** A program: a block with those that continue it. */
export interface DocumentProgram {
  readonly page: string;
  readonly line: number;
  readonly language: "ts" | "js";
  readonly text: string;
}

/** The programs of all pages that tests run. */
export const DOCUMENT_PROGRAMS: readonly DocumentProgram[] = (() => {
  const programs: DocumentProgram[] = [];
  for (const { page, line, language, text, notRun, continues } of DOCUMENT_BLOCKS) {
    if ((language !== "ts" && language !== "js") || notRun !== undefined) continue;
    const last = programs.at(-1);
    if (!continues) programs.push({ page, line, language, text });
    else if (last?.page === page) programs[programs.length - 1] = { ...last, text: `${last.text}\n${text}` };
    else throw new Error(`${page}:${line}: there is no program that this block could continue`);
  }
  return programs;
})();
