// What was tuned for models on this machine's processor: threads and prefill chunks, on disk beside compiled kernels. The
// file's name is a hash of what the results depend on: processor, instruction set, addon and where threads may run. A
// model is known by the types and shapes of its weights. Only the form is checked here; the backend checks ranges.

import { createHash } from "node:crypto";
import { statSync } from "node:fs";
import { cpus } from "node:os";
import { join } from "node:path";
import { isPlainObject } from "../../plain-object.js";
import type { TensorDescriptor } from "../../tensor/descriptor.js";
import { kernelCacheFolder } from "../cache-folder.js";
import { KeptRecord, type RecordFormat } from "../kept-record.js";
import type { ThreadChoice } from "./threads.js";

/** Raised when the form of the file or the meaning of a setting changes. */
const RECORD_VERSION = 1;
const MAX_MODELS = 1024;
const MODEL_KEY = /^[0-9a-f]{64}$/;
const SETTING_NAMES = ["threads", "chunkTokens"] as const;
/** Settings are small counts. */
const MAX_SETTING = 1 << 16;

/** A setting of the backend that is tuned. */
export type SettingName = (typeof SETTING_NAMES)[number];

/** One tuned setting, with the microseconds of a token before and after. */
export interface TunedSetting {
  readonly before: number;
  readonly after: number;
  readonly beforeUs: number;
  readonly afterUs: number;
}

/** The tuned settings of one model. */
export type TunedSettings = Readonly<Partial<Record<SettingName, TunedSetting>>>;

/** What tuned settings depend on. */
export interface ProcessorIdentity {
  readonly isa: string;
  /** The addon's file. */
  readonly addon: string;
  readonly bindingsVersion: number;
  readonly deterministic: boolean;
  /** Where threads run by default. */
  readonly place: ThreadChoice;
}

interface Models {
  readonly models: Readonly<Record<string, TunedSettings>>;
}

const FORMAT: RecordFormat<Models> = {
  empty: { models: {} },
  what: "what was tuned for this processor",
  parse: parsedModels,
};

/** Tuned settings of models on this processor. */
export class TunedModels {
  readonly #file: KeptRecord<Models>;

  constructor(identity: ProcessorIdentity, folder: string = kernelCacheFolder()) {
    this.#file = new KeptRecord(join(folder, `cpu-${recordKey(identity)}.json`), FORMAT);
  }

  get path(): string {
    return this.#file.path;
  }

  /** The settings of a model; empty if it was not tuned. */
  settings(model: string): TunedSettings {
    const { models } = this.#file.read();
    return Object.hasOwn(models, model) ? models[model] : {};
  }

  /** Keeps the settings of a model; false if they could not be written. */
  async keep(model: string, settings: TunedSettings): Promise<boolean> {
    return await this.#file.update(({ models }) => {
      const others = Object.entries(models).filter(([key]) => key !== model);
      return { models: Object.fromEntries([...others.slice(1 - MAX_MODELS), [model, settings]]) };
    });
  }
}

/** The key of a model: equal for models whose weights have the same types and shapes. */
export function modelKey(weights: readonly TensorDescriptor[]): string {
  const shapes = weights.map(({ layout, shape }) => `${layout.name} ${shape.join("x")}`);
  return createHash("sha256").update(shapes.join("\n")).digest("hex");
}

function recordKey({ isa, addon, bindingsVersion, deterministic, place }: ProcessorIdentity): string {
  const { threads, processors = [] } = place;
  const parts = [
    RECORD_VERSION,
    process.platform,
    process.arch,
    cpus().at(0)?.model ?? "",
    isa,
    bindingsVersion,
    addonBuild(addon),
    deterministic,
    threads,
    processors,
  ];
  return createHash("sha256").update(JSON.stringify(parts)).digest("hex");
}

/** Distinguishes builds of the addon, as the keys of compiled kernels distinguish builds of a compiler. */
function addonBuild(path: string): readonly number[] {
  const stats = statSync(path, { throwIfNoEntry: false });
  return stats === undefined ? [] : [stats.size, stats.mtimeMs];
}

function parsedModels(value: unknown): Models | undefined {
  if (!isPlainObject(value) || Object.keys(value).length !== 1) return undefined;
  const { models } = value;
  return isModels(models) ? { models } : undefined;
}

function isModels(value: unknown): value is Models["models"] {
  if (!isPlainObject(value)) return false;
  const entries = Object.entries(value);
  return (
    entries.length <= MAX_MODELS && entries.every(([key, settings]) => MODEL_KEY.test(key) && isSettings(settings))
  );
}

function isSettings(value: unknown): value is TunedSettings {
  if (!isPlainObject(value)) return false;
  const names: readonly string[] = SETTING_NAMES;
  return Object.entries(value).every(([name, setting]) => names.includes(name) && isSetting(setting));
}

function isSetting(value: unknown): value is TunedSetting {
  if (!isPlainObject(value)) return false;
  const { before, after, beforeUs, afterUs, ...rest } = value;
  const isCount = (count: unknown): boolean =>
    Number.isInteger(count) && Number(count) >= 1 && Number(count) <= MAX_SETTING;
  const isTime = (time: unknown): boolean => typeof time === "number" && Number.isFinite(time) && time >= 0;
  return Object.keys(rest).length === 0 && isCount(before) && isCount(after) && isTime(beforeUs) && isTime(afterUs);
}
