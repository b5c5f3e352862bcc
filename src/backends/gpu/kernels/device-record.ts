// What was learned about one card, on disk beside its compiled kernels: which parameters were chosen for kernels and what
// that gained, and which modules passed or failed their check. The file's name is a hash of everything that the results
// depend on: card, driver, compiler and kernel sources. Only the form is checked here; whether a choice fits a kernel is
// decided by the code that uses it.

import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join, sep } from "node:path";
import { isPlainObject } from "../../../plain-object.js";
import { KeptRecord, type RecordFormat } from "../../kept-record.js";
import { kernelCacheFolder } from "../../cache-folder.js";
import type { DriverKind, GpuProperties } from "../drivers/shared/driver.js";
import { KERNEL_FOLDER } from "./kernel-source.js";

/** Raised when the form of the file or the meaning of a choice changes. */
const RECORD_VERSION = 1;
const FILE_PREFIX = "device-";
/** Far more than the launches and modules of a few hundred models. */
const MAX_ENTRIES = 8192;
const MAX_PARAMETERS = 16;
/** Names of choices and modules are ASCII text on one line. */
const ENTRY_NAME = /^[\x20-\x7e]{1,400}$/;
const PARAMETER_NAME = /^[a-z][a-zA-Z0-9]{0,31}$/;
const MAX_PARAMETER = 1 << 20;

/** What the results in a record depend on. */
export interface RecordIdentity {
  readonly kind: DriverKind;
  readonly device: Pick<GpuProperties, "name" | "architecture" | "multiprocessors" | "waveSize">;
  /** The driver's version, as `GpuDriver` has it. */
  readonly driver: string;
  /** The compiler's identity, as the keys of compiled kernels have it. */
  readonly compiler: string;
  /** Whether kernels begin with poor parameters: what was chosen then must not be mistaken for a user's. */
  readonly poor?: boolean;
}

/** Whether a module computed the right results on this card. */
export type ModuleVerdict = "passed" | "failed";

/** Chosen parameters of a kernel, and the time of its launches before and after. */
export interface RecordedChoice {
  readonly parameters: Readonly<Record<string, number>>;
  /** The parameters that it would have without a choice. */
  readonly usual?: Readonly<Record<string, number>>;
  /** Microseconds of one launch with the usual parameters. */
  readonly usualUs?: number;
  /** Microseconds of one launch with the chosen parameters. */
  readonly chosenUs?: number;
}

/** All results of one card. */
export interface DeviceResults {
  /** By the choice's name. */
  readonly chosen: Readonly<Record<string, RecordedChoice>>;
  /** By the module's name. */
  readonly modules: Readonly<Record<string, ModuleVerdict>>;
}

const NO_RESULTS: DeviceResults = { chosen: {}, modules: {} };

const FORMAT: RecordFormat<DeviceResults> = {
  empty: NO_RESULTS,
  what: "what was measured of this card's kernels",
  parse: parsedResults,
};

/** The record of one card; reads and writes are checked, and failures cost the results alone. */
export class DeviceRecord {
  readonly #identity: RecordIdentity;
  readonly #folder: string;
  readonly #sourceFolder: string;
  #kept: KeptRecord<DeviceResults> | undefined;

  constructor(identity: RecordIdentity, folder: string = kernelCacheFolder(), sourceFolder: string = KERNEL_FOLDER) {
    this.#identity = identity;
    this.#folder = folder;
    this.#sourceFolder = sourceFolder;
  }

  get path(): string {
    return this.#file.path;
  }

  /** What is on disk now; empty if there is none, or it is damaged. */
  read(): DeviceResults {
    return this.#kept === undefined && !hasRecords(this.#folder) ? NO_RESULTS : this.#file.read();
  }

  /** Adds results to those on disk, in place of older ones with the same names; false if they could not be written. */
  async add({ chosen = {}, modules = {} }: Partial<DeviceResults>): Promise<boolean> {
    return await this.#file.update((known) => ({
      chosen: newest({ ...known.chosen, ...chosen }),
      modules: newest({ ...known.modules, ...modules }),
    }));
  }

  get #file(): KeptRecord<DeviceResults> {
    this.#kept ??= new KeptRecord(
      join(this.#folder, `${FILE_PREFIX}${recordKey(this.#identity, this.#sourceFolder)}.json`),
      FORMAT,
    );
    return this.#kept;
  }
}

/**
 * Whether the folder has a record at all, of this card or another. Most machines have none, and all kernel sources are
 * hashed for the name of one, which takes longer than a start should wait.
 */
function hasRecords(folder: string): boolean {
  try {
    return readdirSync(folder).some((name) => name.startsWith(FILE_PREFIX));
  } catch {
    return false;
  }
}

/** The latest entries, up to the limit of a record. */
function newest<Value>(entries: Readonly<Record<string, Value>>): Readonly<Record<string, Value>> {
  const all = Object.entries(entries);
  return all.length <= MAX_ENTRIES ? entries : Object.fromEntries(all.slice(-MAX_ENTRIES));
}

function recordKey({ kind, device, driver, compiler, poor = false }: RecordIdentity, sourceFolder: string): string {
  const { name, architecture, multiprocessors, waveSize } = device;
  const sources = sourcesDigest(sourceFolder);
  const parts = [RECORD_VERSION, kind, name, architecture, multiprocessors, waveSize, driver, compiler, poor, sources];
  return createHash("sha256").update(JSON.stringify(parts)).digest("hex");
}

const digests = new Map<string, string>();

/** Hash of all kernel sources and headers, computed once in a process. */
function sourcesDigest(folder: string): string {
  const known = digests.get(folder);
  if (known !== undefined) return known;
  const hash = createHash("sha256");
  const isSource = (path: string): boolean => path.endsWith(".hip") || path.endsWith(".h");
  for (const path of readdirSync(folder, { recursive: true, encoding: "utf8" }).filter(isSource).toSorted()) {
    const text = readFileSync(join(folder, path));
    hash.update(`${path.replaceAll(sep, "/")} ${text.length}\n`).update(text);
  }
  const digest = hash.digest("hex");
  digests.set(folder, digest);
  return digest;
}

function parsedResults(value: unknown): DeviceResults | undefined {
  if (!isPlainObject(value)) return undefined;
  const { chosen, modules, ...rest } = value;
  if (Object.keys(rest).length > 0 || !isTable(chosen, isChoice) || !isTable(modules, isVerdict)) return undefined;
  return { chosen, modules };
}

function isTable<Value>(
  table: unknown,
  isValue: (value: unknown) => value is Value,
): table is Readonly<Record<string, Value>> {
  if (!isPlainObject(table)) return false;
  const entries = Object.entries(table);
  return entries.length <= MAX_ENTRIES && entries.every(([name, entry]) => ENTRY_NAME.test(name) && isValue(entry));
}

function isVerdict(value: unknown): value is ModuleVerdict {
  return value === "passed" || value === "failed";
}

function isChoice(value: unknown): value is RecordedChoice {
  if (!isPlainObject(value)) return false;
  const { parameters, usual, usualUs, chosenUs, ...rest } = value;
  return (
    Object.keys(rest).length === 0 &&
    isParameters(parameters) &&
    (usual === undefined || isParameters(usual)) &&
    isMicroseconds(usualUs) &&
    isMicroseconds(chosenUs)
  );
}

function isParameters(value: unknown): boolean {
  if (!isPlainObject(value)) return false;
  const entries = Object.entries(value);
  const isParameter = ([name, number]: readonly [string, unknown]): boolean =>
    PARAMETER_NAME.test(name) && Number.isInteger(number) && Number(number) >= 0 && Number(number) <= MAX_PARAMETER;
  return entries.length > 0 && entries.length <= MAX_PARAMETERS && entries.every(isParameter);
}

function isMicroseconds(value: unknown): boolean {
  return value === undefined || (typeof value === "number" && Number.isFinite(value) && value >= 0);
}
