// Links of documents on the site. A document links to other files of the repository by relative paths; here they become
// pages of the site or, for files that are no pages (examples, results of benchmarks), copies under repository/.

import { cpSync, existsSync, mkdirSync, statSync } from "node:fs";
import { dirname, join, posix } from "node:path";
import { documentsOf, resolveLink } from "../scripts/document-links.mjs";
import { sitePage } from "./navigation.mjs";

const ELSEWHERE = /^(?:[a-z][a-z+.-]*:|\/\/|#)/i;
/** Browsers show these; other files get the ending .txt, so that they are shown and not downloaded. */
const SHOWN = /\.(?:json|txt|svg|png|html)$/;

/** Rewrites the links of all pages, and remembers which files have to be copied. */
export class RepositoryLinks {
  #root;
  #pages;
  #bySitePage;
  #files = new Set();

  constructor(root) {
    this.#root = root;
    this.#pages = new Set(documentsOf(root));
    this.#bySitePage = new Map([...this.#pages].map((page) => [sitePage(page), page]));
  }

  /** A plugin of markdown-it. */
  plugin = (markdown) => {
    markdown.core.ruler.push("repository-links", ({ tokens, env }) => {
      // VitePress names a page by its place on the site, and its search by the file.
      const page = this.#bySitePage.get(env.relativePath) ?? env.relativePath;
      for (const token of tokens.flatMap(({ children }) => children ?? [])) {
        if (token.type !== "link_open") continue;
        const target = token.attrGet("href");
        if (target !== null && !ELSEWHERE.test(target)) token.attrSet("href", this.#address(page, target));
      }
    });
  };

  #address(page, target) {
    const { file, anchor } = resolveLink(page, target);
    const hash = anchor === undefined ? "" : `#${anchor}`;
    const index = posix.join(file, "README.md");
    if (this.#pages.has(file)) return `/${sitePage(file)}${hash}`;
    if (this.#pages.has(index)) return `/${sitePage(index)}${hash}`;
    const source = join(this.#root, file);
    if (!existsSync(source) || statSync(source).isDirectory())
      throw new Error(`${page} links to ${target}: link to a file or a page, ${file} is neither`);
    this.#files.add(file);
    return `/${copyName(file)}`;
  }

  /** Copies the files that pages link to. */
  copyFiles(outFolder) {
    for (const file of this.#files) {
      const copy = join(outFolder, copyName(file));
      mkdirSync(dirname(copy), { recursive: true });
      cpSync(join(this.#root, file), copy);
    }
  }
}

function copyName(file) {
  return `repository/${SHOWN.test(file) ? file : `${file}.txt`}`;
}
