// Links of the Markdown documents: which files a page links to, the anchors that its headings have, and the links that lead
// nowhere. Anchors are spelled as on GitHub; the site (site/.vitepress/config.mjs) uses the same function, so that a link
// works in both.

import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join, posix, relative, sep } from "node:path";

const TOP_PAGES = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"];
const FENCE = /^ {0,3}(`{3,}|~{3,})/;
const LINK = /!?\[(?:[^\]\\]|\\.)*\]\((?<target>[^)\s]+)(?:\s+"[^"]*")?\)/g;
const ATTRIBUTE = /<(?:a|img|source)\b[^>]*?\s(?:href|src|srcset)="(?<target>[^"]+)"/g;
/** Addresses of other hosts and of mail are not followed: tests have no network. */
const ELSEWHERE = /^(?:[a-z][a-z+.-]*:|\/\/)/i;

/**
 * Every document of the repository that readers see, as paths with `/` from its root.
 * @param {string} root the repository's folder
 * @returns {string[]}
 */
export function documentsOf(root) {
  const pages = readdirSync(join(root, "docs"), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".md"))
    .map((name) => posix.join("docs", name.replaceAll(sep, "/")));
  return [...TOP_PAGES, ...pages.toSorted()];
}

/** The anchor of a heading's text, as GitHub spells it. */
export function slugOf(text) {
  return text
    .trim()
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{M}\p{N}\p{Pc} -]/gu, "")
    .replaceAll(" ", "-");
}

/** The lines of a page outside of fenced blocks and HTML comments; the others are empty, so that numbers stay true. */
export function proseLines(text) {
  let fence;
  let inComment = false;
  return text.split("\n").map((line) => {
    const mark = FENCE.exec(line)?.[1];
    if (fence !== undefined) {
      if (mark !== undefined && mark.startsWith(fence) && line.trim() === mark) fence = undefined;
      return "";
    }
    if (mark !== undefined) {
      fence = mark;
      return "";
    }
    const kept = line.replaceAll(/<!--.*?-->/g, "");
    if (inComment) {
      inComment = !kept.includes("-->");
      return inComment ? "" : kept.slice(kept.indexOf("-->") + 3);
    }
    inComment = kept.includes("<!--");
    return inComment ? kept.slice(0, kept.indexOf("<!--")) : kept;
  });
}

/** A heading's text without its marks. */
function plainText(heading) {
  return heading
    .replaceAll(/!?\[((?:[^\]\\]|\\.)*)\]\([^)]*\)/g, "$1")
    .replaceAll(/<[^>]+>/g, "")
    .replaceAll(/[`*]|\\(?=[^\w\s])/g, "");
}

/**
 * The anchors of a page: its headings, counted if several are alike, and explicit ids.
 * @param {string} text the page
 * @returns {Set<string>}
 */
export function anchorsOf(text) {
  const anchors = new Set();
  for (const line of proseLines(text)) {
    for (const [, id] of line.matchAll(/<[a-z]+\b[^>]*\sid="([^"]+)"/g)) anchors.add(id);
    const heading = /^#{1,6}\s+(.*?)\s*#*\s*$/.exec(line)?.[1];
    if (heading === undefined) continue;
    const slug = slugOf(plainText(heading));
    let name = slug;
    for (let count = 1; anchors.has(name); count++) name = `${slug}-${count}`;
    anchors.add(name);
  }
  return anchors;
}

/**
 * The links of a page to files and anchors of this repository, with their lines.
 * @param {string} text the page
 * @returns {{ line: number, target: string }[]}
 */
export function linksOf(text) {
  return proseLines(text).flatMap((line, index) => {
    const prose = line.replaceAll(/(`+)(?:(?!\1)[^])*?\1/g, "");
    return [...prose.matchAll(LINK), ...prose.matchAll(ATTRIBUTE)]
      .map(({ groups }) => ({ line: index + 1, target: groups.target }))
      .filter(({ target }) => !ELSEWHERE.test(target));
  });
}

/** A link of a page as the file in the repository, with `/` and without a trailing one, and the anchor. */
export function resolveLink(page, target) {
  const [path, anchor] = decodeURI(target).split("#", 2);
  const file = path === "" ? page : posix.join(posix.dirname(page), path);
  return { file: file.replace(/\/$/, ""), anchor };
}

/**
 * The links that lead nowhere: no such file, no such heading, or a way out of the repository.
 * @param {string} root the repository's folder
 * @param {readonly string[]} pages paths from there
 * @returns {string[]} `page:line: target: why`
 */
export function brokenLinks(root, pages = documentsOf(root)) {
  const anchors = new Map();
  const anchorsIn = (file) => {
    if (!anchors.has(file)) anchors.set(file, anchorsOf(readFileSync(join(root, file), "utf8")));
    return anchors.get(file);
  };
  const problemOf = (page, target) => {
    const { file, anchor } = resolveLink(page, target);
    if (target.startsWith("/") || file.startsWith("..")) return "is not a path inside the repository";
    if (!existsSync(join(root, file))) return `${file} does not exist`;
    if (relative(root, dirname(join(root, file))).startsWith("node_modules")) return `${file} is not ours`;
    if (anchor === undefined) return undefined;
    if (statSync(join(root, file)).isDirectory() || !file.endsWith(".md")) return `${file} has no headings`;
    return anchorsIn(file).has(anchor) ? undefined : `${file} has no heading #${anchor}`;
  };
  return pages.flatMap((page) =>
    linksOf(readFileSync(join(root, page), "utf8")).flatMap(({ line, target }) => {
      const problem = problemOf(page, target);
      return problem === undefined ? [] : [`${page}:${line}: ${target}: ${problem}`];
    }),
  );
}
