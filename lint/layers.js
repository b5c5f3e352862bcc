// The import order of ARCHITECTURE.md as data, and the function that checks an import against it. A part is a folder or
// file directly under src/ (`gguf`, `errors`), or one level deeper inside backends/.

import { readdirSync, readFileSync } from "node:fs";

/** Lowest first. A part may import its own group and every group before it. */
export const LAYERS = [
  [
    "errors",
    "error-path",
    "file-lock",
    "lifetime",
    "lru",
    "nearest",
    "options",
    "package-files",
    "plain-object",
    "process-owner",
    "system-failure",
    "whole-file",
  ],
  ["gguf", "quant", "tensor"],
  ["graph"],
  ["backends/contract", "backends/tuning", "backends/warm-up-step"],
  ["sampler"],
  ["loader", "architectures", "backends"],
  ["plan", "verify"],
  ["kv-cache", "tokenizer", "chat", "grammar", "worker", "log"],
  ["scheduler"],
  ["speculation"],
  ["engine"],
  ["completion"],
  ["hub"],
  ["model"],
  ["index", "internals", "server", "cli", "ai"],
];

/**
 * The order inside a part that has rooms, lowest first: folders or files, relative to the part. Files that are not
 * named are above all of them.
 */
export const ROOMS = {
  "backends/gpu": [
    ["drivers/shared"],
    ["drivers/hip", "drivers/cuda"],
    ["drivers"],
    ["kernels"],
    ["memory"],
    ["lowering"],
    ["blas"],
    ["execution"],
    ["checking"],
  ],
  chat: [["limits", "message", "prompt-text"], ["output"], ["template/jinja"], ["template"]],
  grammar: [
    [
      "automaton",
      "char-set",
      "compile-time",
      "control-tokens",
      "expression",
      "form-text",
      "grammar-spec",
      "limits",
      "rules",
      "work-budget",
    ],
    ["notation"],
    ["schema"],
    ["compile-grammar"],
    ["worker"],
  ],
  server: [["http"], ["schema"], ["completion"], ["routes"]],
};

/** Rooms of one group that must not import each other. */
const ROOM_STRANGERS = [["drivers/hip", "drivers/cuda"]];

/** Parts of one group that must not import each other. */
const STRANGERS = [
  ["backends", "loader"],
  ["backends", "architectures"],
  ["loader", "architectures"],
  ["server", "cli"],
  ["server", "ai"],
  ["cli", "ai"],
  ["kv-cache", "tokenizer"],
  ["kv-cache", "sampler"],
  ["kv-cache", "chat"],
  ["tokenizer", "sampler"],
  ["tokenizer", "chat"],
  ["sampler", "chat"],
  ["kv-cache", "grammar"],
  ["sampler", "grammar"],
  ["chat", "grammar"],
];

/** Folders that contain one backend each; all other code reaches them through the registry. */
const CONCRETE_BACKENDS = new Set(["backends/reference", "backends/cpu", "backends/gpu"]);
const BACKEND_REGISTRY = "src/backends/registry.ts";
/** The one import that leaves src/: types of the native bindings, through the one file that re-exports them. */
const NATIVE_BINDINGS = { from: "src/backends/cpu/native-bindings.ts", to: "native/cpu/index.ts" };

/** What the command line may know of the server: the entry point that users of the package have. */
const SERVER_ENTRY = "src/server/index.ts";

/** Values of `general.architecture` without a descriptor that code might be tempted to compare with. */
const OTHER_ARCHITECTURES =
  `llama4 mistral mistral3 mixtral qwen qwen2moe qwen3moe glm4moe chatglm gemma gemma2 gemma3 phi2
  phi3 phimoe gpt2 gptj gptneox gpt-oss falcon starcoder starcoder2 refact mpt bloom baichuan internlm2 command-r cohere2
  deepseek deepseek2 olmo olmo2 granite stablelm minicpm smollm3 mamba exaone`.split(/\s+/);

/** The names that only src/architectures may compare with: a new descriptor's name is read from its file. */
export const ARCHITECTURE_NAMES = new Set([...describedArchitectures(), ...OTHER_ARCHITECTURES]);

function describedArchitectures() {
  const folder = new URL("../src/architectures/families/", import.meta.url);
  return readdirSync(folder)
    .filter((file) => file.endsWith(".ts"))
    .flatMap((file) =>
      [...readFileSync(new URL(file, folder), "utf8").matchAll(/^ {2}name: "([\w-]+)",$/gm)].map(([, name]) => name),
    );
}

/** A test, or a file that only tests use: it may import anything, and no shipped file may import it. */
export function isTestFile(path) {
  return path.endsWith(".test.ts") || /(^|\/)testing\//.test(path);
}

/**
 * The part a file belongs to.
 * @param {string} path relative to the repository, with forward slashes
 * @returns {string | undefined} undefined outside src/
 */
export function partOf(path) {
  const segments = path.split("/");
  if (segments[0] !== "src" || segments.length < 2) return undefined;
  const depth = segments[1] === "backends" && segments.length > 2 ? 2 : 1;
  return segments
    .slice(1, 1 + depth)
    .join("/")
    .replace(/\.[cm]?[jt]s$/, "");
}

/** Files of the contract, which have a layer of their own. */
const CONTRACT = new Set(["backends/contract", "backends/tuning", "backends/warm-up-step"]);

/** `backends/cpu` and `backends/registry` are in the layer of `backends`; the contract has a layer of its own. */
function placeOf(part) {
  return part.startsWith("backends/") && !CONTRACT.has(part) ? "backends" : part;
}

function levelOf(part) {
  return LAYERS.findIndex((group) => group.includes(placeOf(part)));
}

/** The room of a file inside its part: the longest name in ROOMS that its path begins with. */
function roomOf(part, path) {
  const inside = path.slice(`src/${part}/`.length).replace(/\.[cm]?[jt]s$/, "");
  const names = ROOMS[part].flat().filter((name) => inside === name || inside.startsWith(`${name}/`));
  return names.toSorted((one, other) => other.length - one.length)[0];
}

function judgeRooms(part, fromPath, toPath) {
  const [from, to] = [roomOf(part, fromPath), roomOf(part, toPath)];
  const level = (room) =>
    room === undefined ? ROOMS[part].length : ROOMS[part].findIndex((group) => group.includes(room));
  if (from === to || level(to) < level(from)) return undefined;
  const areStrangers = ROOM_STRANGERS.some((pair) => pair.includes(from) && pair.includes(to));
  if (level(to) === level(from) && !areStrangers) return undefined;
  return `${part}/${from ?? "*"} may not import ${part}/${to ?? "*"}; see ROOMS in lint/layers.js`;
}

/**
 * Judges one import.
 * @param {string} fromPath the importing file, relative to the repository
 * @param {string} toPath the imported file, relative to the repository
 * @param {{ dynamic: boolean }} how whether it is an `import()` call
 * @returns {string | undefined} what is wrong, or undefined
 */
export function judgeImport(fromPath, toPath, { dynamic }) {
  const from = partOf(fromPath);
  if (from === undefined || isTestFile(fromPath)) return undefined;
  if (fromPath === NATIVE_BINDINGS.from && toPath === NATIVE_BINDINGS.to) return undefined;
  const to = partOf(toPath);
  if (to === undefined)
    return `src/ imports nothing from outside src/, and ${toPath} is; move what is shared into src/`;
  if (isTestFile(toPath)) return `${toPath} is for tests and not part of the build; code that ships cannot import it`;
  for (const part of [from, to]) {
    if (levelOf(part) === -1) return `src/${part} has no place in the import order; add it to LAYERS in lint/layers.js`;
  }
  if (from === "cli" && toPath === SERVER_ENTRY) return undefined;
  if (from === to && from in ROOMS) return judgeRooms(from, fromPath, toPath);
  if (CONCRETE_BACKENDS.has(to) && from !== to && !(dynamic && fromPath === BACKEND_REGISTRY)) {
    return `${to} is one concrete backend; only backends/registry names it, by dynamic import()`;
  }
  if (levelOf(to) > levelOf(from))
    return `${from} may not import ${to}, which is above it; see LAYERS in lint/layers.js`;
  const pair = new Set([placeOf(from), placeOf(to)]);
  if (STRANGERS.some((strangers) => strangers.every((part) => pair.has(part)))) {
    return `${from} and ${to} must not know each other; move what they share below both`;
  }
  return undefined;
}
