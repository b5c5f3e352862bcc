// Models in repositories of the hub: found in the listing, kept in Hugging Face's cache.

import { stat } from "node:fs/promises";
import { RepositoryFolder } from "./cache-layout.js";
import { chooseFiles, isFirstChoice, modelsAmong } from "./file-choice.js";
import type { HttpClient } from "./http-client.js";
import type { HubSettings } from "./hub-settings.js";
import { type HubReference, modelNameOf } from "./model-reference.js";
import type { RemoteFile } from "./remote-file.js";
import type { RemoteModel } from "./remote-model.js";
import { readRepository } from "./repository.js";

/** Finds a model on the hub. */
export async function findHubModel(
  client: HttpClient,
  { endpoint, cacheFolder }: HubSettings,
  reference: HubReference,
): Promise<RemoteModel> {
  const { repository, revision } = reference;
  const { commit, files } = await readRepository(client, endpoint, repository, revision);
  const { first, paths } = chooseFiles(client.place, [...files.keys()], reference);
  const folder = new RepositoryFolder(cacheFolder, repository);
  const chosen = paths.map((path) => files.get(path) as RemoteFile);
  const tagOf = (file: RemoteFile): string => file.etag as string;
  return {
    name: modelNameOf({ kind: "hub", repository, revision, file: first }),
    client,
    files: chosen.map((file) => ({ file, target: folder.blob(tagOf(file)) })),
    finish: async () => {
      // The reference comes last: a snapshot that it names is complete.
      for (const file of chosen) await folder.addToSnapshot(commit, file.name, tagOf(file));
      await folder.writeReference(revision, commit);
      return folder.file(commit, first);
    },
  };
}

/** How sure a model in the cache is the one that the hub would choose. */
export interface CachedModel {
  readonly path: string;
  /** Whether the hub could choose another file, because no file or quantisation was named. */
  readonly isGuess: boolean;
}

/** Finds a model in the cache without asking the hub; undefined if it is not there or not complete. */
export async function findCachedHubModel(
  { cacheFolder }: HubSettings,
  reference: HubReference,
): Promise<CachedModel | undefined> {
  const folder = new RepositoryFolder(cacheFolder, reference.repository);
  const commit = await folder.commitOf(reference.revision);
  if (commit === undefined) return undefined;
  const files = await completeFiles(folder, commit);
  const { file, quant } = reference;
  if (file === undefined && modelsAmong(files).length === 0) return undefined;
  try {
    const chosen = chooseFiles(modelNameOf(reference), files, reference);
    const isGuess = file === undefined && quant === undefined && !isFirstChoice(chosen);
    return { path: folder.file(commit, chosen.first), isGuess };
  } catch {
    // It may be on the hub.
    return undefined;
  }
}

/** The files of a snapshot whose blobs are there. */
async function completeFiles(folder: RepositoryFolder, commit: string): Promise<readonly string[]> {
  const names = await folder.filesOf(commit);
  const there = await Promise.all(
    names.map((name) =>
      stat(folder.file(commit, name)).then(
        (stats) => stats.isFile(),
        () => false,
      ),
    ),
  );
  return names.filter((_, index) => there[index]);
}
