// What `doctor --fix` does. Each repair is announced with what it removes and how large that is. A model file that is
// complete is never touched, and a repair that fails does not keep the others from being tried.

import { rm } from "node:fs/promises";
import { systemFailureText } from "../../system-failure.js";
import { buildAddon } from "../addon-build.js";
import { countOf, formatBytes } from "../format.js";
import type { Health, RepairReport } from "./health.js";
import type { RepairKind } from "./known-problems.js";

type Announce = (text: string) => void;

/** A repair: announces what it does, and resolves with what it did; throws if it fails. */
const REPAIRS: Readonly<Record<RepairKind, (health: Health, announce: Announce) => Promise<RepairReport>>> = {
  addon: rebuildAddon,
  "kernel cache": cleanKernelCache,
  downloads: removeStaleFiles,
};

/** Repairs every problem of a report that can be repaired. */
export async function repair(health: Health, announce: Announce): Promise<readonly RepairReport[]> {
  const kinds = new Set(health.problems.flatMap((problem) => problem.repair ?? []));
  const reports: RepairReport[] = [];
  for (const kind of kinds) {
    try {
      reports.push(await REPAIRS[kind](health, announce));
    } catch (error) {
      reports.push({ what: `repaired the ${kind}`, failure: systemFailureText(error) });
    }
  }
  return reports;
}

async function rebuildAddon(_health: Health, announce: Announce): Promise<RepairReport> {
  announce("building the native addon");
  const failure = await buildAddon();
  return { what: "built the native addon", ...(failure === undefined ? {} : { failure: failure.reason }) };
}

async function cleanKernelCache({ caches }: Health, announce: Announce): Promise<RepairReport> {
  const { folder, useless } = caches.kernels;
  const amount = amountText(useless);
  announce(`removing ${amount} from the kernel cache ${folder}`);
  for (const { path } of useless) await rm(path, { force: true });
  return { what: `removed ${amount} from the kernel cache` };
}

async function removeStaleFiles({ caches }: Health, announce: Announce): Promise<RepairReport> {
  const { removeStaleDownload } = await import("../../hub/stale-downloads.js");
  for (const { kind, path, sizeBytes } of caches.stale)
    announce(
      `removing the ${kind === "lock" ? "abandoned lock" : "partial download"} ${path}, ${formatBytes(sizeBytes)}`,
    );
  const removed = [];
  for (const stale of caches.stale) if (await removeStaleDownload(stale)) removed.push(stale);
  return { what: `removed ${amountText(removed)} from the model caches` };
}

function amountText(files: readonly { readonly sizeBytes: number }[]): string {
  const sizeBytes = files.reduce((total, file) => total + file.sizeBytes, 0);
  return `${countOf(files.length, "file")} (${formatBytes(sizeBytes)})`;
}
