// Where models come from and where they are kept, from the environment: the variables of Hugging Face's own tools, so
// that files are shared with them and with llama.cpp, and Ollama's. Read once for each call, never cached.

import { existsSync, readFileSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { isAbsolute, join, resolve } from "node:path";
import { HubError } from "../errors.js";

/** Settings of one call. */
export interface HubSettings {
  /** The hub's address without a slash at the end; a mirror if `HF_ENDPOINT` names one. */
  readonly endpoint: string;
  /** Sent to the endpoint's own host and to no other. */
  readonly token: string | undefined;
  /** Whether nothing may be downloaded or looked up. */
  readonly offline: boolean;
  /** Hugging Face's cache: `models--user--repo/{blobs,refs,snapshots}`. */
  readonly cacheFolder: string;
  /** The folder of models from other addresses. */
  readonly urlFolder: string;
  /** Folders in which Ollama may keep its models. */
  readonly ollamaFolders: readonly string[];
}

/** Environment variable for the folder of models from other addresses than the hub's. */
export const MODEL_CACHE_VARIABLE = "ROCMFORGE_MODEL_CACHE";
const DEFAULT_ENDPOINT = "https://huggingface.co";
const TRUE = /^(?:1|true|yes|on)$/i;
const MAX_TOKEN_BYTES = 4096;
/** What a header may contain; anything else in a token file is a mistake. */
const TOKEN = /^[\x21-\x7e]+$/;
/** Where Ollama's system service keeps models on Linux. */
const OLLAMA_SERVICE_FOLDER = "/usr/share/ollama/.ollama/models";

/** Reads the settings from the environment; `offline` may only add to it. */
export function readHubSettings(
  offline = false,
  environment: NodeJS.ProcessEnv = process.env,
  home = homedir(),
): HubSettings {
  const value = (name: string): string | undefined => {
    const text = environment[name];
    return text === undefined || text.trim() === "" ? undefined : text.trim();
  };
  const folder = (name: string): string | undefined => {
    const path = value(name);
    return path === undefined ? undefined : resolve(path.replace(/^~(?=$|[/\\])/, home));
  };
  const caches = value("XDG_CACHE_HOME");
  // The XDG specification says to ignore relative paths.
  const cacheHome = caches !== undefined && isAbsolute(caches) ? caches : join(home, ".cache");
  const hubHome = folder("HF_HOME") ?? join(cacheHome, "huggingface");
  return {
    endpoint: checkedEndpoint(value("HF_ENDPOINT") ?? DEFAULT_ENDPOINT),
    token: checkedToken("HF_TOKEN", value("HF_TOKEN")) ?? tokenFile(join(hubHome, "token")),
    offline: offline || TRUE.test(value("HF_HUB_OFFLINE") ?? ""),
    cacheFolder: folder("HF_HUB_CACHE") ?? folder("HUGGINGFACE_HUB_CACHE") ?? join(hubHome, "hub"),
    urlFolder: folder(MODEL_CACHE_VARIABLE) ?? join(cacheHome, "rocmforge", "models"),
    ollamaFolders: ollamaFolders(folder("OLLAMA_MODELS"), home),
  };
}

function checkedEndpoint(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol) || url.search !== "" || url.username !== "")
    // The value may contain a secret, which must not appear in a message.
    throw new HubError(
      "HUB_NAME",
      `[hub] HF_ENDPOINT: expected an address such as ${DEFAULT_ENDPOINT}, without a user name, password or query`,
    );
  return `${url.origin}${url.pathname.replace(/\/+$/, "")}`;
}

function checkedToken(place: string, token: string | undefined): string | undefined {
  if (token === undefined || TOKEN.test(token)) return token;
  // The token itself must not appear in a message.
  throw new HubError("HUB_ACCESS", `[hub] ${place}: expected a token in one line of printable characters`);
}

function tokenFile(path: string): string | undefined {
  try {
    if (statSync(path).size > MAX_TOKEN_BYTES) return undefined;
    const token = readFileSync(path, "utf8").trim();
    return token === "" ? undefined : checkedToken(path, token);
  } catch (error) {
    if (error instanceof HubError) throw error;
    return undefined;
  }
}

function ollamaFolders(named: string | undefined, home: string): readonly string[] {
  if (named !== undefined) return [named];
  return [join(home, ".ollama", "models"), OLLAMA_SERVICE_FOLDER].filter((folder) => existsSync(folder));
}
