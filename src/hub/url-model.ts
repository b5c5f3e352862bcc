// Models at other addresses than the hub's. Each has a folder of its own under the package's model cache, named after
// its host and the hash of its address: a note states the address and the current version, and each version has a
// folder named after its validators, so that a file that changes on the server is never mixed with its predecessor. The
// folder of an unfinished version has a note of its own, by which it is listed.

import { createHash } from "node:crypto";
import { readFile, rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { HubError } from "../errors.js";
import { writeWholeFile } from "../whole-file.js";
import { folderNames, PARTIAL_SUFFIX } from "./cache-layout.js";
import { sizeOf } from "./disk-space.js";
import { splitParts } from "./file-choice.js";
import { FileLock } from "../file-lock.js";
import type { HttpAnswer } from "./http-answer.js";
import type { HttpClient } from "./http-client.js";
import type { HubSettings } from "./hub-settings.js";
import { type UrlReference, wrongName } from "./model-reference.js";
import { type RemoteFile, validatorOf } from "./remote-file.js";
import type { RemoteModelFile, RemoteModel } from "./remote-model.js";
import { Retries } from "./retries.js";
import { isSafePath } from "./safe-path.js";

const HASH_CHARACTERS = 16;
const VERSION = /^[0-9a-f]{16}$/;
const MAX_FILE_BYTES = 2 ** 44;
const MAX_NOTE_BYTES = 256 * 1024;
const NOTE_NAME = "source.json";

/** What is noted about a downloaded model. */
export interface ModelNote {
  readonly url: string;
  /** The folder of the current version. */
  readonly version: string;
  readonly files: readonly { readonly name: string; readonly sizeBytes: number }[];
}

/** Asks a server about the files of a model. */
export async function findUrlModel(
  client: HttpClient,
  settings: HubSettings,
  { url }: UrlReference,
): Promise<RemoteModel> {
  const folder = folderOf(settings, url);
  const described: RemoteFile[] = [];
  for (const part of partUrls(url)) described.push(await describe(client, part));
  const version = shortHash(JSON.stringify(described.map(({ etag = null, sizeBytes }) => [etag, sizeBytes])));
  const files = described.map((file): RemoteModelFile => {
    const path = join(folder, version, file.name);
    return { file, target: { path, partialPath: `${path}${PARTIAL_SUFFIX}` } };
  });
  const note = { url: url.href, version, files: described.map(({ name, sizeBytes }) => ({ name, sizeBytes })) };
  return {
    name: url.href,
    client,
    files,
    begin: async () => await writeNote(join(folder, version), note),
    finish: async () => {
      await writeNote(folder, note);
      await rm(join(folder, version, NOTE_NAME), { force: true });
      await removeOtherVersions(folder, version);
      return files[0].target.path;
    },
  };
}

/** The path of a model that was downloaded from an address; undefined if it is not there or not complete. */
export async function findCachedUrlModel(settings: HubSettings, { url }: UrlReference): Promise<string | undefined> {
  const folder = folderOf(settings, url);
  const note = await readNote(folder);
  if (note === undefined) return undefined;
  const paths = note.files.map(({ name }) => join(folder, note.version, name));
  const sizes = await Promise.all(paths.map(sizeOf));
  return note.files.every(({ sizeBytes }, index) => sizeBytes === sizes[index]) ? paths[0] : undefined;
}

/** The note in the folder of a downloaded model; undefined if there is none. */
export async function readNote(folder: string): Promise<ModelNote | undefined> {
  const path = join(folder, NOTE_NAME);
  try {
    if ((await sizeOf(path)) > MAX_NOTE_BYTES) return undefined;
    const { url, version, files } = JSON.parse(await readFile(path, "utf8")) as Partial<ModelNote>;
    const isNote =
      typeof url === "string" &&
      typeof version === "string" &&
      VERSION.test(version) &&
      Array.isArray(files) &&
      files.length > 0 &&
      files.every(({ name, sizeBytes }) => isFileName(name) && typeof sizeBytes === "number");
    return isNote ? { url, version, files } : undefined;
  } catch {
    return undefined;
  }
}

/** The notes of versions in the folder of a model whose download was begun and not finished. */
export async function unfinishedNotes(folder: string): Promise<readonly ModelNote[]> {
  const versions = (await folderNames(folder)).filter((name) => VERSION.test(name));
  const notes = await Promise.all(versions.map((version) => readNote(join(folder, version))));
  return notes.filter((note) => note !== undefined);
}

/** The folder of the model at an address; its parts share one. */
export function folderOf({ urlFolder }: HubSettings, url: URL): string {
  const [first] = partUrls(url);
  const hash = shortHash(first.href);
  return join(urlFolder, `${url.hostname.replace(/[^\w.-]/g, "_")}-${hash}`);
}

function partUrls(url: URL): readonly URL[] {
  return (splitParts(url.pathname) ?? [url.pathname]).map((path) => {
    const part = new URL(url);
    part.pathname = path;
    return part;
  });
}

function fileNameOf({ pathname, href }: URL): string {
  let name = basename(pathname);
  try {
    name = decodeURIComponent(name);
  } catch {
    // A name that is not encoded is taken as it is.
  }
  if (!isFileName(name)) throw wrongName(href, "a file name that can be stored");
  return name;
}

function isFileName(name: string): boolean {
  return isSafePath(name) && !name.includes("/");
}

function shortHash(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, HASH_CHARACTERS);
}

/** Learns a file's size and version from its first byte: some servers do not answer HEAD. */
async function describe(client: HttpClient, url: URL): Promise<RemoteFile> {
  const retries = new Retries(client.place, client.policy, client.signal);
  using answer = await retries.run(() => client.open(url, { headers: { Range: "bytes=0-0" } }));
  const sizeBytes = statedSize(answer);
  if (sizeBytes === undefined || sizeBytes > MAX_FILE_BYTES)
    throw new HubError("HUB_RESPONSE", `[hub] ${client.place}: the server does not state the size of the file`, {
      details: { url: url.href, status: answer.status },
    });
  return {
    name: fileNameOf(url),
    url,
    sizeBytes,
    etag: validatorOf(answer.headers),
    statedBy: "host",
    checksum: undefined,
  };
}

function statedSize({ status, headers }: HttpAnswer): number | undefined {
  const text =
    status === 206 ? /\/(\d{1,15})$/.exec(headers.get("content-range") ?? "")?.[1] : headers.get("content-length");
  return text !== null && text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}

async function writeNote(folder: string, note: ModelNote): Promise<void> {
  await writeWholeFile("hub", join(folder, NOTE_NAME), async (handle) => {
    await handle.writeFile(`${JSON.stringify(note)}\n`);
  });
}

/** Removes versions that the server no longer has, unless a process still downloads one. */
async function removeOtherVersions(folder: string, current: string): Promise<void> {
  for (const version of await folderNames(folder)) {
    if (version === current || !VERSION.test(version)) continue;
    if (!(await isBeingWritten(join(folder, version))))
      await rm(join(folder, version), { recursive: true, force: true });
  }
}

/** Whether a process is downloading a file into this folder. */
export async function isBeingWritten(folder: string): Promise<boolean> {
  for (const name of await folderNames(folder)) {
    if (!name.endsWith(PARTIAL_SUFFIX)) continue;
    await using lock = await FileLock.tryAcquire(join(folder, name));
    if (lock === undefined) return true;
  }
  return false;
}
