// The models on this machine: in Hugging Face's cache, from other addresses, and Ollama's.

import { stat } from "node:fs/promises";
import { join } from "node:path";
import { blobOf, folderNames, PARTIAL_SUFFIX, repositoriesIn, RepositoryFolder } from "./cache-layout.js";
import { chooseFiles, modelsAmong, quantOf } from "./file-choice.js";
import type { HubSettings } from "./hub-settings.js";
import { DEFAULT_REVISION, type HubReference, modelNameOf } from "./model-reference.js";
import { listOllamaModels } from "./ollama-model.js";
import type { ListedModel } from "./pull-types.js";
import { readNote, unfinishedNotes } from "./url-model.js";

/** The files of a download, complete or not; neither its note nor its locks. */
const ARRIVED = /\.gguf(?:\.incomplete)?$/i;

/** Lists all models; caches that cannot be read are skipped. */
export async function listCachedModels(settings: HubSettings): Promise<readonly ListedModel[]> {
  const [hub, urls, ollama] = await Promise.all([
    listHubModels(settings),
    listUrlModels(settings),
    listOllamaModels(settings),
  ]);
  return [...hub, ...urls, ...ollama].toSorted((one, other) => one.name.localeCompare(other.name));
}

async function listHubModels({ cacheFolder }: HubSettings): Promise<readonly ListedModel[]> {
  const repositories = await repositoriesIn(cacheFolder);
  const lists = await Promise.all(
    repositories.map(async (repository) => {
      const folder = new RepositoryFolder(cacheFolder, repository);
      return [...(await modelsOf(folder, repository)), ...(await partialsOf(folder, repository))];
    }),
  );
  return lists.flat();
}

/** A file that is the same in several commits is listed once, with the branch's name if it is the branch's. */
async function modelsOf(folder: RepositoryFolder, repository: string): Promise<readonly ListedModel[]> {
  const current = await folder.commitOf(DEFAULT_REVISION);
  const found = new Map<string, ListedModel>();
  const commits = (await folder.commits()).toSorted((one) => (one === current ? -1 : 1));
  for (const commit of commits) {
    const names = await folder.filesOf(commit);
    for (const { first, paths } of modelsAmong(names)) {
      const files = paths.map((path) => folder.file(commit, path));
      const blobs = await Promise.all(files.map(blobOf));
      const key = blobs.join("\n");
      const revision = commit === current ? DEFAULT_REVISION : commit;
      const model = await listedFiles(
        shortName({ kind: "hub", repository, revision, file: first }, names),
        "hub",
        files,
      );
      if (model !== undefined && !found.has(key)) found.set(key, model);
    }
  }
  return [...found.values()];
}

/** The name with the quantisation instead of the file, if that means the same file. */
function shortName(reference: HubReference & { readonly file: string }, names: readonly string[]): string {
  const { file, ...rest } = reference;
  const quant = quantOf(file);
  const isSame = quant !== undefined && chooseFiles("", names, { quant }).first === file;
  return modelNameOf(isSame ? { ...rest, quant } : reference);
}

async function partialsOf(folder: RepositoryFolder, repository: string): Promise<readonly ListedModel[]> {
  const partials = (await folderNames(folder.blobs)).filter((name) => name.endsWith(PARTIAL_SUFFIX));
  const paths = partials.map((name) => join(folder.blobs, name));
  return await unfinished(`hf:${repository}`, "hub", paths);
}

async function listUrlModels({ urlFolder }: HubSettings): Promise<readonly ListedModel[]> {
  const folders = await folderNames(urlFolder);
  const lists = await Promise.all(
    folders.map(async (name) => {
      const folder = join(urlFolder, name);
      const note = await readNote(folder);
      const paths = note?.files.map((file) => join(folder, note.version, file.name)) ?? [];
      const model = note === undefined ? undefined : await listedFiles(note.url, "url", paths);
      return [...(model === undefined ? [] : [model]), ...(await unfinishedUrlModels(folder))];
    }),
  );
  return lists.flat();
}

/** With the bytes that have arrived, of parts that are complete too. */
async function unfinishedUrlModels(folder: string): Promise<readonly ListedModel[]> {
  const lists = await Promise.all(
    (await unfinishedNotes(folder)).map(async ({ url, version }) => {
      const names = await folderNames(join(folder, version));
      const isPartial = names.some((name) => name.endsWith(PARTIAL_SUFFIX));
      const arrived = names.filter((name) => ARRIVED.test(name)).map((name) => join(folder, version, name));
      return isPartial ? await unfinished(url, "url", arrived) : [];
    }),
  );
  return lists.flat();
}

/** Undefined if a file is missing. */
async function listedFiles(
  name: string,
  source: ListedModel["source"],
  paths: readonly string[],
): Promise<ListedModel | undefined> {
  try {
    const stats = await Promise.all(paths.map((path) => stat(path)));
    return {
      name,
      source,
      path: paths[0],
      sizeBytes: stats.reduce((total, { size }) => total + size, 0),
      unfinished: false,
      modified: new Date(Math.max(...stats.map(({ mtimeMs }) => mtimeMs))),
    };
  } catch {
    return undefined;
  }
}

async function unfinished(
  name: string,
  source: ListedModel["source"],
  paths: readonly string[],
): Promise<readonly ListedModel[]> {
  const whole = paths.length === 0 ? undefined : await listedFiles(name, source, paths);
  return whole === undefined ? [] : [{ ...whole, path: undefined, unfinished: true }];
}
