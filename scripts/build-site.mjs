// Builds the documentation site (site/, VitePress) to site/dist, and checks what was built: every link and every picture of
// its pages exists, every anchor too, and nothing is loaded from another server. Its packages are installed at the first
// build, apart from those of the checkout.

import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join, posix, sep } from "node:path";
import { brokenLinks, documentsOf } from "./document-links.mjs";
import { install } from "./install.mjs";
import { runProgram, runTool, say, ScriptError } from "./tool.mjs";

const SITE = "site";
const ADDRESS = /^(?:[a-z][a-z+.-]*:|\/\/)/i;
/** Tags whose address a browser loads by itself; links are followed by readers only. */
const LOADED = /<(?:script|img|source|iframe|video|audio|link|use)\b[^>]*?\s(?:src|href|srcset|xlink:href)="([^"]+)"/g;
const LINKED = /<a\b[^>]*?\shref="([^"]+)"/g;
const STYLE_ADDRESS = /(?:@import\s+|url\()\s*["']?((?:https?:)?\/\/[^"')\s]+)/g;

const vitepress = (root) => join(root, SITE, "node_modules", "vitepress", "bin", "vitepress.js");

/** Throws if a document of the repository has a link that leads nowhere. */
export function checkLinks(root) {
  const problems = brokenLinks(root);
  if (problems.length > 0)
    throw new ScriptError(`${problems.length} links of documents lead nowhere`, { tail: problems.join("\n") });
  say(`every link of ${documentsOf(root).length} documents leads somewhere`);
}

/** Builds the site; throws a ScriptError with what is wrong. */
export async function buildSite(root, { base = "/" } = {}) {
  checkLinks(root);
  await install(join(root, SITE), "what builds the site");
  const args = [vitepress(root), "build", SITE, "--base", base];
  await runTool("building the site (vitepress)", process.execPath, args, {
    cwd: root,
    env: { ...process.env, NO_COLOR: "1" },
  });
  const problems = siteProblems(join(root, SITE, "dist"), base);
  if (problems.length > 0)
    throw new ScriptError(`the built site has ${problems.length} problems`, { tail: problems.join("\n") });
  say(`site/dist has ${htmlFiles(join(root, SITE, "dist")).length} pages; open it with npm run docs -- --serve`);
}

/** Serves the documents as a site that follows their changes, until it is interrupted. */
export async function serveSite(root) {
  await install(join(root, SITE), "what builds the site");
  const { exitCode } = await runProgram(process.execPath, [vitepress(root), "dev", SITE, "--host", "127.0.0.1"], {
    cwd: root,
    show: true,
  });
  return exitCode;
}

function htmlFiles(folder) {
  return filesOf(folder).filter((file) => file.endsWith(".html"));
}

function filesOf(folder) {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => posix.join(...join(entry.parentPath, entry.name).slice(folder.length).split(sep)));
}

/**
 * What is wrong with a built site: links and pictures that do not exist, anchors that no element has, addresses of other
 * servers that a browser would load by itself.
 * @param {string} folder the built site
 * @param {string} base the path under which it will be served
 * @returns {string[]}
 */
export function siteProblems(folder, base = "/") {
  const pages = new Map(
    htmlFiles(folder).map((name) => [name.replace(/^\//, ""), readFileSync(join(folder, name), "utf8")]),
  );
  const idsOf = new Map([...pages].map(([name, html]) => [name, idsIn(html)]));
  const problemOf = (page, address) => {
    const [path, anchor] = decodeURI(address.replaceAll("&amp;", "&")).split("#", 2);
    const file = path === "" ? page : fileOf(page, path, base);
    if (file === undefined) return `is outside of ${base}`;
    const name = [file, `${file}.html`, posix.join(file, "index.html")].find((each) => isFile(folder, each));
    if (name === undefined) return "does not exist";
    if (anchor === undefined || anchor === "" || !pages.has(name)) return undefined;
    return idsOf.get(name).has(anchor) ? undefined : `has no element #${anchor}`;
  };
  const ofPages = [...pages].flatMap(([page, html]) => {
    const loaded = [...html.matchAll(LOADED)].map(([, address]) => address);
    const linked = [...html.matchAll(LINKED)].map(([, address]) => address);
    return [
      ...loaded
        .filter((address) => ADDRESS.test(address) && !address.startsWith("data:"))
        .map((address) => `${page}: loads ${address}`),
      ...[...loaded, ...linked]
        .filter((address) => !ADDRESS.test(address))
        .flatMap((address) => {
          const problem = problemOf(page, address);
          return problem === undefined ? [] : [`${page}: ${address} ${problem}`];
        }),
    ];
  });
  const ofStyles = filesOf(folder)
    .filter((file) => file.endsWith(".css"))
    .flatMap((file) =>
      [...readFileSync(join(folder, file), "utf8").matchAll(STYLE_ADDRESS)].map(
        ([, address]) => `${file}: loads ${address}`,
      ),
    );
  return [...ofPages, ...ofStyles];
}

const idsIn = (html) => new Set([...html.matchAll(/\sid="([^"]+)"/g)].map(([, id]) => id.replaceAll("&amp;", "&")));

const isFile = (folder, name) => existsSync(join(folder, name)) && statSync(join(folder, name)).isFile();

function fileOf(page, path, base) {
  if (!path.startsWith("/")) return posix.join(posix.dirname(page), path);
  if (!path.startsWith(base)) return undefined;
  return path.slice(base.length).replace(/^\//, "");
}
