// The API reference of docs/api, made from the declarations that the compiler writes to dist/: one page for each entry
// point of package.json with a promise behind it, every exported name with its doc comment and its declaration.
// A declaration file is regular enough to be read by lines: statements begin in column 0.

import { existsSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";

/** The entry point whose names any release may change: it has no page, but its types may be named. */
const INTERNALS = "./internals";
const LEFT_OUT = new Set([INTERNALS, "./package.json"]);
const HEAD = /^export (?:declare )?(?:abstract )?(?<kind>function|class|interface|type|const|let|enum) (?<name>[\w$]+)/;
/** Also declarations that are not exported. */
const LOCAL = /^(?:export )?(?:declare )?(?:abstract )?(?:class|interface|type|enum) (?<name>[\w$]+)/;
const REEXPORT = /^export (?:type )?\{(?<names>[^}]*)\}(?: from "(?<from>[^"]+)")?;/;
const REEXPORT_ALL = /^export (?:type )?\* from "(?<from>[^"]+)";/;
const IMPORT = /^import (?:type )?\{(?<names>[^}]*)\} from "(?<from>[^"]+)";/;
const SECTIONS = [
  { title: "Functions", kinds: ["function"] },
  { title: "Classes", kinds: ["class"] },
  { title: "Types", kinds: ["interface", "type", "enum"] },
  { title: "Constants", kinds: ["const", "let"] },
];

/**
 * The entry points of a package with the declaration file of each.
 * @param {string} root the package's folder
 * @returns {{ name: string, page: string, file: string }[]}
 */
export function entryPoints(root) {
  const { name, exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  return Object.entries(exports)
    .filter(([path]) => !LEFT_OUT.has(path))
    .map(([path, { types }]) => ({
      name: path === "." ? name : `${name}${path.slice(1)}`,
      page: `${path === "." ? name : path.slice(2).replaceAll("/", "-")}.md`,
      file: join(root, types),
    }));
}

/** The declaration file of the internals, if the package has them. */
function internalsFile(root) {
  const { types } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")).exports[INTERNALS] ?? {};
  return types === undefined ? [] : [join(root, types)];
}

/** The statements of a declaration file, each with the doc comment before it. */
function statementsOf(text) {
  const statements = [];
  let comment = [];
  let body = [];
  let depth = 0;
  let inComment = false;
  for (const line of text.split("\n")) {
    const startsComment = body.length === 0 && line.startsWith("/**");
    if (startsComment) comment = [];
    if (startsComment || (inComment && body.length === 0)) {
      comment.push(line);
      inComment = !line.includes("*/");
      continue;
    }
    if (body.length === 0 && (line.trim() === "" || line.startsWith("//"))) continue;
    body.push(line);
    const code = line.replace(/\/\*.*?\*\/|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/g, "");
    if (inComment || /^\s*\/\*\*/.test(code)) {
      inComment = !line.includes("*/");
      continue;
    }
    for (const character of code) {
      if ("{([".includes(character)) depth++;
      if ("})]".includes(character)) depth--;
    }
    if (depth > 0 || !/[;}]\s*$/.test(code)) continue;
    statements.push({ comment: proseOf(comment), text: body.join("\n") });
    comment = [];
    body = [];
    depth = 0;
  }
  return statements;
}

/** The text of a doc comment without its frame. */
function proseOf(lines) {
  return lines
    .map((line) => line.replace(/^\s*\/\*\*\s?|\s*\*\/\s*$|^\s*\*\s?/g, "").trim())
    .join("\n")
    .trim();
}

/** `a, type b as c` as pairs of the outer and the inner name. */
function namePairs(names) {
  return names
    .split(",")
    .map((each) => each.trim().replace(/^type /, ""))
    .filter((each) => each !== "")
    .map((each) => each.split(" as ").map((name) => name.trim()))
    .map(([inner, outer = inner]) => ({ inner, outer }));
}

class DeclarationFiles {
  #modules = new Map();

  /** Every name that a file exports, with its declaration. */
  exportsOf(file) {
    const { declared, reexports, wholes } = this.#module(file);
    const found = new Map(declared);
    for (const from of wholes)
      for (const [name, each] of this.exportsOf(from)) if (!found.has(name)) found.set(name, each);
    for (const { outer, inner, from } of reexports) {
      const each = this.exportsOf(from).get(inner);
      if (each === undefined) throw new Error(`${from} does not export ${inner}, which ${file} exports`);
      found.set(outer, { ...each, name: outer });
    }
    return found;
  }

  /** Whether a name in a file means a type of this package. */
  ownsType(file, name) {
    const { imported, types } = this.#module(file);
    return types.has(name) || imported.get(name)?.isOwn === true;
  }

  #module(file) {
    const known = this.#modules.get(file);
    if (known !== undefined) return known;
    const imported = new Map();
    const module = { declared: new Map(), reexports: [], wholes: [], imported, types: new Set() };
    this.#modules.set(file, module);
    const resolve = (specifier) => join(dirname(file), specifier.replace(/\.js$/, ".d.ts"));
    for (const { comment, text } of statementsOf(readFileSync(file, "utf8"))) {
      const line = text.replaceAll(/\s+/g, " ");
      const imports = IMPORT.exec(line)?.groups;
      const names = REEXPORT.exec(line)?.groups;
      const all = REEXPORT_ALL.exec(line)?.groups;
      const head = HEAD.exec(text)?.groups;
      const local = LOCAL.exec(text)?.groups;
      if (local !== undefined) module.types.add(local.name);
      if (imports !== undefined)
        for (const { inner, outer } of namePairs(imports.names))
          imported.set(outer, { inner, from: resolve(imports.from), isOwn: imports.from.startsWith(".") });
      else if (all !== undefined) module.wholes.push(resolve(all.from));
      else if (names !== undefined)
        for (const { inner, outer } of namePairs(names.names)) {
          const source = names.from === undefined ? imported.get(inner) : { inner, from: resolve(names.from) };
          if (source !== undefined) module.reexports.push({ outer, ...source });
        }
      else if (head !== undefined) add(module.declared, { ...head, comment, text, file });
    }
    return module;
  }
}

/** The package's own types in a declaration that no entry point exports: readers cannot name them. */
function unexportedTypes(files, { text, file }, nameable) {
  const code = text.replace(/\/\*[^]*?\*\/|"(?:[^"\\]|\\.)*"/g, "");
  const names = new Set(code.match(/\b[A-Z][\w$]*\b/g) ?? []);
  return [...names].filter((name) => !nameable.has(name) && files.ownsType(file, name));
}

/** Overloads of one function are one entry. */
function add(declared, each) {
  const before = declared.get(each.name);
  const merged = before === undefined ? each : { ...before, text: `${before.text}\n${each.text}` };
  declared.set(each.name, merged);
}

/** A declaration as the reference shows it: without keywords of the file, private members and references to files. */
function shown(text) {
  return text
    .replace(/^export (?:declare )?/gm, "")
    .replace(/^ {4}(?:#private;|private .*;)\n/gm, "")
    .replace(/import\("[^"]+"\)\./g, "")
    .replace(/^( +)/gm, (indent) => " ".repeat(Math.floor(indent.length / 4) * 2 + (indent.length % 4)));
}

const firstSentence = (comment) =>
  (/^.*?[.:;](?=\s|$)/s.exec(comment)?.[0] ?? comment).replaceAll("\n", " ").replace(/[.:;]$/, "");

/** The page of one entry point. */
function pageOf({ name }, found) {
  const sections = SECTIONS.map(({ title, kinds }) => ({
    title,
    entries: [...found.values()]
      .filter(({ kind }) => kinds.includes(kind))
      .toSorted((left, right) => (left.name < right.name ? -1 : 1)),
  })).filter(({ entries }) => entries.length > 0);
  const index = sections.map(
    ({ title, entries }) =>
      `**${title}**\n\n${entries.map((each) => `- [\`${each.name}\`](#${each.name.toLowerCase()}): ${firstSentence(each.comment)}\n`).join("")}`,
  );
  const bodies = sections.flatMap(({ entries }) =>
    entries.map((each) => `## ${each.name}\n\n${each.comment}\n\n\`\`\`ts\n${shown(each.text)}\n\`\`\`\n`),
  );
  const note = "<!-- Generated from the types by `npm run docs`; edit the doc comments in src/. -->";
  return `${note}\n\n# \`${name}\`\n\n${index.join("\n")}\n${bodies.join("\n")}`;
}

/**
 * All pages of the reference, the exported names that have no doc comment, and the types that exported declarations
 * use and no entry point exports.
 * @param {string} root the package's folder, with dist/ built
 * @returns {{ pages: Map<string, string>, undocumented: string[], unexported: string[] }}
 */
export function apiReference(root, points = entryPoints(root)) {
  const files = new DeclarationFiles();
  const pages = new Map();
  const undocumented = new Set();
  const unexported = new Set();
  for (const { file } of points)
    if (!existsSync(file)) throw new Error(`${relative(root, file)} is missing; run npm run build`);
  const nameable = new Set(
    [...points.map(({ file }) => file), ...internalsFile(root)].flatMap((file) => [...files.exportsOf(file).keys()]),
  );
  for (const point of points) {
    const found = files.exportsOf(point.file);
    pages.set(point.page, pageOf(point, found));
    for (const each of found.values())
      for (const type of unexportedTypes(files, each, nameable))
        unexported.add(`${point.name}: ${type} of ${each.name}`);
    for (const { name, comment, file } of found.values())
      if (comment === "") undocumented.add(`${relative(join(root, "dist"), file).replace(/\.d\.ts$/, ".ts")}: ${name}`);
  }
  return { pages, undocumented: [...undocumented].toSorted(), unexported: [...unexported].toSorted() };
}
