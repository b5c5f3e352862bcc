// The caches on disk as `doctor` describes them: compiled kernels and models, their sizes, and what is of no use.

import { accessSync, constants, existsSync } from "node:fs";
import { dirname } from "node:path";
import { type KernelCacheReport, examineKernelCache } from "../../backends/registry.js";
import { RocmForgeError } from "../../errors.js";
import type { HubSettings } from "../../hub/hub-settings.js";
import type { StaleDownload } from "../../hub/stale-downloads.js";

/** The disk that a folder is on, or would be. */
interface DiskReport {
  /** Undefined if the file system does not tell. */
  readonly freeBytes: number | undefined;
  readonly writable: boolean;
}

/** A cache of models. */
interface ModelCacheReport {
  readonly folder: string;
  readonly models: number;
  readonly sizeBytes: number;
  readonly disk: DiskReport;
}

/** The caches of this user. */
export interface CachesReport {
  readonly kernels: KernelCacheReport & { readonly disk: DiskReport };
  readonly hub: ModelCacheReport | undefined;
  readonly url: ModelCacheReport | undefined;
  readonly stale: readonly StaleDownload[];
  /** Why the model caches could not be found: a setting that is invalid. */
  readonly problem?: string;
}

/** Looks at all caches; changes nothing. */
export async function examineCaches(): Promise<CachesReport> {
  const report = await examineKernelCache();
  const kernels = { ...report, disk: await diskOf(report.folder) };
  const [{ readHubSettings }, { listCachedModels }, { findStaleDownloads }] = await Promise.all([
    import("../../hub/hub-settings.js"),
    import("../../hub/list-models.js"),
    import("../../hub/stale-downloads.js"),
  ]);
  let settings: HubSettings;
  try {
    settings = readHubSettings();
  } catch (error) {
    if (!(error instanceof RocmForgeError)) throw error;
    return { kernels, hub: undefined, url: undefined, stale: [], problem: error.message };
  }
  const models = await listCachedModels(settings);
  const cache = async (folder: string, source: string): Promise<ModelCacheReport> => {
    const own = models.filter((model) => model.source === source && !model.unfinished);
    const sizeBytes = own.reduce((total, model) => total + model.sizeBytes, 0);
    return { folder, models: own.length, sizeBytes, disk: await diskOf(folder) };
  };
  return {
    kernels,
    hub: await cache(settings.cacheFolder, "hub"),
    url: await cache(settings.urlFolder, "url"),
    stale: await findStaleDownloads(settings),
  };
}

async function diskOf(folder: string): Promise<DiskReport> {
  let existing = folder;
  while (!existsSync(existing) && dirname(existing) !== existing) existing = dirname(existing);
  const { freeBytes } = await import("../../hub/disk-space.js");
  return { freeBytes: await freeBytes(existing), writable: isWritable(existing) };
}

function isWritable(folder: string): boolean {
  try {
    accessSync(folder, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}
