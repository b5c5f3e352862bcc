// What a user types for a model, parsed: `hf:user/repo[:quant]`, `hf:user/repo/file.gguf#branch`, the address of a
// GGUF, `ollama:name:tag`. Invariant: every part of a reference has passed a check that keeps it inside the cache.

import { HubError } from "../errors.js";
import { isSafePath } from "./safe-path.js";

/** A model in a repository of the hub. */
export interface HubReference {
  readonly kind: "hub";
  /** `user/repo`. */
  readonly repository: string;
  /** A branch, a tag or a commit. */
  readonly revision: string;
  /** A path in the repository; a `.gguf` file. */
  readonly file?: string;
  /** The quantisation in a file's name, such as `Q4_K_M`. */
  readonly quant?: string;
}

/** A GGUF at an address. */
export interface UrlReference {
  readonly kind: "url";
  readonly url: URL;
}

/** A model that Ollama has pulled. */
export interface OllamaReference {
  readonly kind: "ollama";
  /** Host, namespace and name, as the folders of Ollama's manifests spell them. */
  readonly folders: readonly [host: string, namespace: string, name: string];
  readonly tag: string;
  /** `name:tag`, for people. */
  readonly label: string;
}

/** What a model's name refers to. */
export type ModelReference = HubReference | UrlReference | OllamaReference;

/** The branch of a repository without `#branch`. */
export const DEFAULT_REVISION = "main";

const FORMS = "hf:user/repo[:quant], hf:user/repo/file.gguf[#branch], https://… of a .gguf file, ollama:name[:tag]";
/** As the hub allows them; two dots or two hyphens in a row are not allowed, because the cache's names use them. */
const NAME_PART = /^(?!.*(?:--|\.\.))[A-Za-z0-9_][\w.-]{0,95}$/;
const QUANT = /^[A-Za-z0-9][\w.-]{0,63}$/;
const MAX_NAME_CHARACTERS = 1024;
const HUB_HOSTS = ["huggingface.co", "hf.co"];
const LOOPBACK = /^(?:localhost|127(?:\.\d+){3}|\[::1\])$/;

const OLLAMA_HOST = "registry.ollama.ai";
const OLLAMA_NAMESPACE = "library";
const OLLAMA_TAG = "latest";
const OLLAMA_PART = /^[A-Za-z0-9_][\w.-]{0,127}$/;

/** Parses a model's name; `hubHosts` are further hosts whose addresses are those of a hub, such as a mirror's. */
export function parseModelName(name: string, hubHosts: readonly string[] = []): ModelReference {
  if (name.length > MAX_NAME_CHARACTERS)
    throw wrongName(`${name.slice(0, 80)}…`, `at most ${MAX_NAME_CHARACTERS} characters`);
  if (/^hf:/i.test(name)) return parseHub(name, name.slice("hf:".length));
  if (/^ollama:/i.test(name)) return parseOllama(name, name.slice("ollama:".length));
  return parseUrl(name, [...HUB_HOSTS, ...hubHosts]);
}

/** The name of a reference, as `parseModelName` reads it. */
export function modelNameOf(reference: ModelReference): string {
  if (reference.kind === "url") return reference.url.href;
  if (reference.kind === "ollama") return `ollama:${reference.label}`;
  const { repository, file, quant, revision } = reference;
  const branch = revision === DEFAULT_REVISION ? "" : `#${revision}`;
  return `hf:${repository}${file === undefined ? "" : `/${file}`}${quant === undefined ? "" : `:${quant}`}${branch}`;
}

/** The error for a text that is not the name of a model. */
export function wrongName(name: string, expected = FORMS): HubError {
  return new HubError("HUB_NAME", `[hub] ${JSON.stringify(name)}: expected ${expected}`, { details: { name } });
}

function parseHub(name: string, rest: string): HubReference {
  const [place, revision = DEFAULT_REVISION, ...extra] = rest.split("#");
  const [user = "", repo = "", ...folders] = place.split("/");
  const [repoName, quant, ...more] = folders.length === 0 ? repo.split(":") : [repo];
  const isValid =
    extra.length === 0 && more.length === 0 && NAME_PART.test(user) && NAME_PART.test(repoName) && isSafePath(revision);
  if (!isValid) throw wrongName(name);
  if (quant !== undefined && !QUANT.test(quant)) throw wrongName(name);
  return {
    kind: "hub",
    repository: `${user}/${repoName}`,
    revision,
    ...(quant === undefined ? {} : { quant }),
    ...(folders.length === 0 ? {} : { file: requireModelFile(name, folders.join("/")) }),
  };
}

function requireModelFile(name: string, file: string): string {
  if (!isSafePath(file) || !/\.gguf$/i.test(file)) throw wrongName(name, "a .gguf file in the repository");
  return file;
}

/** An address of a file on the hub is that file, so that it is cached and resumed like one. */
function parseUrl(name: string, hubHosts: readonly string[]): HubReference | UrlReference {
  if (!URL.canParse(name)) throw wrongName(name);
  const url = new URL(name);
  // The password itself must not appear in a message.
  if (url.username !== "" || url.password !== "")
    throw wrongName(`${url.protocol}//…@${url.host}${url.pathname}`, "an address without a user name or password");
  if (url.protocol !== "https:" && !LOOPBACK.test(url.hostname))
    throw wrongName(name, "https://: over http:// anyone on the way could replace the file");
  const onHub = hubHosts.includes(url.host) ? parseHubAddress(name, url) : undefined;
  if (onHub !== undefined) return onHub;
  if (!/\.gguf$/i.test(url.pathname)) throw wrongName(name, "the address of a .gguf file");
  url.hash = "";
  return { kind: "url", url };
}

function parseHubAddress(name: string, { pathname }: URL): HubReference | undefined {
  const [user, repo, kind, revision, ...folders] = pathname.slice(1).split("/").map(decoded);
  if (user === undefined || repo === undefined || !NAME_PART.test(user) || !NAME_PART.test(repo)) return undefined;
  const repository = `${user}/${repo}`;
  if (kind === undefined || kind === "") return { kind: "hub", repository, revision: DEFAULT_REVISION };
  if (!["resolve", "blob"].includes(kind) || revision === undefined || !isSafePath(revision)) return undefined;
  return { kind: "hub", repository, revision, file: requireModelFile(name, folders.join("/")) };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function parseOllama(name: string, rest: string): OllamaReference {
  const colon = rest.lastIndexOf(":");
  // A colon before a slash belongs to a host with a port.
  const hasTag = colon > rest.lastIndexOf("/");
  const place = hasTag ? rest.slice(0, colon) : rest;
  const tag = hasTag ? rest.slice(colon + 1) : OLLAMA_TAG;
  const parts = place.split("/");
  const [host, namespace, model] =
    parts.length === 1
      ? [OLLAMA_HOST, OLLAMA_NAMESPACE, ...parts]
      : parts.length === 2
        ? [OLLAMA_HOST, ...parts]
        : parts;
  const isValid = parts.length <= 3 && [host, namespace, model, tag].every((part) => OLLAMA_PART.test(part));
  if (!isValid) throw wrongName(name, "ollama:name[:tag], as `ollama list` shows it");
  return { kind: "ollama", folders: [host, namespace, model], tag, label: `${place}:${tag}` };
}
