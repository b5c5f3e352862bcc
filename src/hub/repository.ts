// A repository of the hub at one commit: its files with sizes and checksums, listed by Hugging Face's own client, which
// is loaded when it is needed. Requests go through our client, so that the token stays with the hub and answers are
// bounded. Nothing in a listing is trusted: names that could leave the cache are dropped.

import type { ListFileEntry } from "@huggingface/hub";
import { HubError } from "../errors.js";
import type { HttpClient } from "./http-client.js";
import { printableUrl } from "./http-answer.js";
import type { RemoteFile } from "./remote-file.js";
import { Retries } from "./retries.js";
import { isSafePath } from "./safe-path.js";

const MAX_ANSWER_BYTES = 32 * 1024 * 1024;
const MAX_REQUESTS = 64;
const MAX_FILES = 20_000;
/** Larger than any published file, and exact as a number. */
const MAX_FILE_BYTES = 2 ** 44;
const COMMIT = /^[0-9a-f]{40}$/;
const SHA256 = /^[0-9a-f]{64}$/;

/** A repository at one commit. */
export interface Repository {
  readonly commit: string;
  /** Every file that the cache can hold, by path. */
  readonly files: ReadonlyMap<string, RemoteFile>;
}

/** Asks the hub for the commit and the files of a branch, tag or commit. */
export async function readRepository(
  client: HttpClient,
  endpoint: string,
  repository: string,
  revision: string,
): Promise<Repository> {
  const { listFiles, modelInfo } = await import("./hub-client.js");
  const request = { hubUrl: endpoint, fetch: boundedFetch(client, endpoint) };
  const { sha } = await modelInfo({ name: repository, revision, additionalFields: ["sha"], ...request });
  if (typeof sha !== "string" || !COMMIT.test(sha)) throw malformed(client, "a commit of 40 hexadecimal digits");
  const files = new Map<string, RemoteFile>();
  const listing = listFiles({ repo: { type: "model", name: repository }, recursive: true, revision: sha, ...request });
  let seen = 0;
  for await (const entry of listing) {
    if (++seen > MAX_FILES) throw malformed(client, `a listing of at most ${MAX_FILES} files`);
    const file = remoteFile(`${endpoint}/${repository}/resolve/${sha}`, entry);
    if (file !== undefined) files.set(file.name, file);
  }
  return { commit: sha, files };
}

function remoteFile(base: string, { type, path, size, oid, lfs }: ListFileEntry): RemoteFile | undefined {
  if (type !== "file" || typeof path !== "string" || !isSafePath(path)) return undefined;
  const hash = lfs?.oid ?? oid;
  const sizeBytes = lfs?.size ?? size;
  const kind = lfs === undefined ? "git" : "sha256";
  const isValid = typeof hash === "string" && (kind === "git" ? COMMIT : SHA256).test(hash);
  if (!isValid || !Number.isSafeInteger(sizeBytes) || sizeBytes < 0 || sizeBytes > MAX_FILE_BYTES) return undefined;
  const url = new URL(`${base}/${path.split("/").map(encodeURIComponent).join("/")}`);
  return { name: path, url, sizeBytes, etag: hash, statedBy: "hub", checksum: { kind, hex: hash } };
}

/** `fetch` as the hub's client calls it: whole answers of the endpoint, bounded in size and number. */
function boundedFetch(client: HttpClient, endpoint: string): typeof fetch {
  const { origin } = new URL(endpoint);
  let requests = 0;
  return async (input) => {
    const url = new URL(input instanceof Request ? input.url : input);
    // A listing names the address of its next page.
    if (url.origin !== origin) throw malformed(client, `addresses of ${origin}`, printableUrl(url));
    if (++requests > MAX_REQUESTS) throw malformed(client, `a listing of at most ${MAX_REQUESTS} pages`);
    return await new Retries(client.place, client.policy, client.signal).run(async () => {
      using answer = await client.open(url, { headers: { Accept: "application/json" } });
      const bytes = await answer.bytes(MAX_ANSWER_BYTES, client.signal);
      requireJson(client, bytes);
      return new Response(new Uint8Array(bytes), { status: answer.status, headers: answer.headers });
    });
  };
}

/** Checked here, because the hub's client would throw a SyntaxError or a TypeError. */
function requireJson(client: HttpClient, bytes: Buffer): void {
  let value: unknown;
  try {
    value = JSON.parse(bytes.toString("utf8"));
  } catch {
    throw malformed(client, "JSON");
  }
  if (typeof value !== "object" || value === null) throw malformed(client, "a JSON object or list");
  if (Array.isArray(value) && !value.every((entry) => typeof entry === "object" && entry !== null))
    throw malformed(client, "a list of files");
}

function malformed({ place }: HttpClient, expected: string, found = "another answer"): HubError {
  const message = `[hub] ${place}: expected ${expected} from the hub, found ${found}; check HF_ENDPOINT`;
  return new HubError("HUB_RESPONSE", message, { details: { expected, found } });
}
