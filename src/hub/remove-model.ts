// Removes models from the caches. Only GGUF files and partial downloads are removed, because Python's tools keep other
// files in the same cache; a blob goes with the last snapshot that links to it. Nothing of Ollama's is removed.

import { rm, rmdir } from "node:fs/promises";
import { join } from "node:path";
import { HubError } from "../errors.js";
import { blobOf, isInside, folderNames, PARTIAL_SUFFIX, RepositoryFolder } from "./cache-layout.js";
import { sizeOf } from "./disk-space.js";
import { chooseFiles, modelsAmong } from "./file-choice.js";
import { FileLock } from "../file-lock.js";
import type { HubSettings } from "./hub-settings.js";
import { type HubReference, type ModelReference, modelNameOf, type UrlReference } from "./model-reference.js";
import type { RemovedModel } from "./pull-types.js";
import { folderOf, isBeingWritten } from "./url-model.js";

/** Removes the model that a reference names; without a file or quantisation, all models of the repository. */
export async function removeCachedModel(settings: HubSettings, reference: ModelReference): Promise<RemovedModel> {
  if (reference.kind === "hub") return await removeHubModel(settings, reference);
  if (reference.kind === "url") return await removeUrlModel(settings, reference);
  const message = `[hub] ${modelNameOf(reference)}: it is Ollama's; \`ollama rm ${reference.label}\` removes it`;
  throw new HubError("HUB_NAME", message, { details: { name: modelNameOf(reference) } });
}

async function removeHubModel({ cacheFolder }: HubSettings, reference: HubReference): Promise<RemovedModel> {
  const { repository, file, quant } = reference;
  const isWhole = file === undefined && quant === undefined;
  const folder = new RepositoryFolder(cacheFolder, repository);
  await refuseIfWritten(folder, reference);
  const links = await linksOf(folder, reference);
  const partials = isWhole ? await partialsOf(folder) : [];
  if (links.length === 0 && partials.length === 0) throw notThere(reference);
  const blobs = new Set(await Promise.all(links.map(blobOf)));
  for (const link of links) await rm(link, { force: true });
  const freed = [...partials, ...(await unusedOf(folder, blobs))];
  const sizes = await Promise.all(freed.map(sizeOf));
  for (const path of freed) await rm(path, { force: true });
  await removeEmptyFolders(folder);
  return { removedFiles: links, freedBytes: sizes.reduce((total, size) => total + size, 0) };
}

/** The files of the named models in all snapshots. */
async function linksOf(folder: RepositoryFolder, { file, quant }: HubReference): Promise<readonly string[]> {
  const links: string[] = [];
  for (const commit of await folder.commits()) {
    const files = await folder.filesOf(commit);
    links.push(...namedIn(files, file, quant).map((name) => folder.file(commit, name)));
  }
  return links;
}

function namedIn(files: readonly string[], file: string | undefined, quant: string | undefined): readonly string[] {
  if (file === undefined && quant === undefined) return modelsAmong(files).flatMap(({ paths }) => paths);
  try {
    return chooseFiles("", files, {
      ...(file === undefined ? {} : { file }),
      ...(quant === undefined ? {} : { quant }),
    }).paths;
  } catch {
    return [];
  }
}

async function partialsOf(folder: RepositoryFolder): Promise<readonly string[]> {
  const names = await folderNames(folder.blobs);
  return names.filter((name) => name.endsWith(PARTIAL_SUFFIX)).map((name) => join(folder.blobs, name));
}

/** Blobs of this repository that no snapshot links to any more. */
async function unusedOf(folder: RepositoryFolder, blobs: ReadonlySet<string>): Promise<readonly string[]> {
  const used = new Set<string>();
  for (const commit of await folder.commits())
    for (const name of await folder.filesOf(commit)) used.add(await blobOf(folder.file(commit, name)));
  // A link made by others may lead anywhere; only files of this repository are ours to remove.
  return [...blobs].filter((blob) => !used.has(blob) && isInside(folder.blobs, blob));
}

async function refuseIfWritten(folder: RepositoryFolder, reference: HubReference): Promise<void> {
  for (const path of await partialsOf(folder)) {
    await using lock = await FileLock.tryAcquire(path);
    if (lock === undefined) throw inUse(reference);
  }
}

/** Removes what is empty, from the inside out; a folder with other files stays. */
async function removeEmptyFolders(folder: RepositoryFolder): Promise<void> {
  const remove = (path: string): Promise<void> => rmdir(path).catch(() => {});
  for (const commit of await folder.commits()) await removeEmptyBelow(join(folder.snapshots, commit));
  await Promise.all([remove(folder.blobs), remove(folder.snapshots)]);
  const [rest, ...others] = await folderNames(folder.path);
  // References to commits without files mean nothing.
  if (others.length === 0 && rest === "refs") await rm(folder.path, { recursive: true, force: true });
}

async function removeEmptyBelow(path: string): Promise<void> {
  for (const name of await folderNames(path)) await removeEmptyBelow(join(path, name));
  await rmdir(path).catch(() => {});
}

async function removeUrlModel(settings: HubSettings, reference: UrlReference): Promise<RemovedModel> {
  const folder = folderOf(settings, reference.url);
  const paths: string[] = [];
  for (const version of await folderNames(folder)) {
    if (await isBeingWritten(join(folder, version))) throw inUse(reference);
    for (const name of await folderNames(join(folder, version))) paths.push(join(folder, version, name));
  }
  if (paths.length === 0) throw notThere(reference);
  const sizes = await Promise.all(paths.map(sizeOf));
  await rm(folder, { recursive: true, force: true });
  return { removedFiles: paths, freedBytes: sizes.reduce((total, size) => total + size, 0) };
}

function notThere(reference: ModelReference): HubError {
  const name = modelNameOf(reference);
  return new HubError("HUB_NOT_FOUND", `[hub] ${name}: it is not in the cache; \`rocmforge list\` shows what is`, {
    details: { name },
  });
}

function inUse(reference: ModelReference): HubError {
  const name = modelNameOf(reference);
  return new HubError("HUB_IN_USE", `[hub] ${name}: another process is downloading it; end that first`, {
    details: { name },
  });
}
