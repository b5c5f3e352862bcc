// From a model's name to its files on disk: finds the model, says whether it would run, downloads what is missing. A
// file that changes on the server meanwhile is looked up again.

import { HubError } from "../errors.js";
import { sizeOf } from "./disk-space.js";
import { downloadFile } from "./download.js";
import { HttpClient } from "./http-client.js";
import { findHubModel } from "./hub-model.js";
import type { HubSettings } from "./hub-settings.js";
import { previewRemoteModel } from "./model-preview.js";
import { ModelLock } from "./model-lock.js";
import type { HubReference, UrlReference } from "./model-reference.js";
import { PullReport } from "./pull-report.js";
import type { PullModelOptions } from "./pull-types.js";
import { FileChanged } from "./remote-file.js";
import { type RemoteModel, requireRoom } from "./remote-model.js";
import { RETRY_POLICY, type RetryPolicy } from "./retries.js";
import { findUrlModel } from "./url-model.js";

/** How often a model is looked up again because a file has changed. */
const MAX_LOOKUPS = 3;
/** Files of a split model that are downloaded at the same time. */
const PARALLEL_FILES = 2;

/** What tests set. */
export interface TransferTuning {
  readonly policy?: RetryPolicy;
  /** The largest range that one request asks for. */
  readonly chunkBytes?: number;
}

/** Everything about one pull. */
export interface PullContext {
  readonly settings: HubSettings;
  /** The model's name as it was given, for messages. */
  readonly place: string;
  readonly options: PullModelOptions;
  readonly tuning?: TransferTuning;
}

/** Downloads what is missing of a model; returns the path of its first file. */
export async function pullRemoteModel(reference: HubReference | UrlReference, context: PullContext): Promise<string> {
  for (let lookup = 1; ; lookup++) {
    try {
      return await pullOnce(reference, context);
    } catch (error) {
      if (!(error instanceof FileChanged)) throw error;
      if (lookup === MAX_LOOKUPS)
        throw new HubError(
          "HUB_RESPONSE",
          `[hub] ${context.place}: ${error.message}, ${lookup} times; try again later`,
        );
    }
  }
}

/** Finds a model on its server. */
export async function findRemoteModel(
  reference: HubReference | UrlReference,
  { settings, place, options, tuning }: PullContext,
): Promise<RemoteModel> {
  const { endpoint, token } = settings;
  const client = new HttpClient({
    place,
    endpoint,
    token,
    policy: tuning?.policy ?? RETRY_POLICY,
    signal: options.signal,
  });
  return reference.kind === "hub"
    ? await findHubModel(client, settings, reference)
    : await findUrlModel(client, settings, reference);
}

async function pullOnce(reference: HubReference | UrlReference, context: PullContext): Promise<string> {
  const { options, place, tuning } = context;
  const report = new PullReport(place, options.onProgress);
  report.phase("resolving");
  const model = await findRemoteModel(reference, context);
  report.start(model);
  if (await hasMissingFiles(model)) {
    await using _ = await ModelLock.acquire(model, (file) => report.waiting(file));
    await downloadMissing(model, options, report, tuning);
  } else if (options.onPreview !== undefined) {
    options.onPreview((await previewRemoteModel(model, options)).preview);
  }
  return await model.finish();
}

/** Another process may have downloaded all of it while this one waited for the lock. */
async function downloadMissing(
  model: RemoteModel,
  options: PullModelOptions,
  report: PullReport,
  tuning: TransferTuning | undefined,
): Promise<void> {
  if (!(await hasMissingFiles(model))) return;
  await requireRoom(model);
  report.phase("inspecting");
  const previewed = await previewRemoteModel(model, options);
  options.onPreview?.(previewed.preview);
  if (options.ignoreMemoryCheck !== true && previewed.refusal !== undefined) throw previewed.refusal;
  await model.begin?.();
  report.phase("downloading");
  await eachOf(model.files, PARALLEL_FILES, async (part) => {
    const prefix = previewed.headers.find(({ file }) => file === part.file)?.bytes;
    const observer = report.observe(part);
    await downloadFile(model.client, part.file, part.target, {
      observer,
      ...(prefix === undefined ? {} : { prefix }),
      ...(tuning?.chunkBytes === undefined ? {} : { chunkBytes: tuning.chunkBytes }),
    });
    observer.onDone();
  });
}

async function hasMissingFiles(model: RemoteModel): Promise<boolean> {
  const sizes = await Promise.all(model.files.map(({ target }) => sizeOf(target.path)));
  return model.files.some(({ file }, index) => sizes[index] !== file.sizeBytes);
}

/** Runs `work` for every item, a few at a time; after a failure none is begun, and those that run are waited for. */
async function eachOf<Item>(
  items: readonly Item[],
  parallel: number,
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const failures: unknown[] = [];
  let next = 0;
  const runner = async (): Promise<void> => {
    while (next < items.length && failures.length === 0) {
      try {
        await work(items[next++]);
      } catch (error) {
        failures.push(error);
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(parallel, items.length) }, runner));
  if (failures.length > 0) throw failures[0];
}
