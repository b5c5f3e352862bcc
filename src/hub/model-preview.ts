// What can be known of a model before it is downloaded: family, block types, size, and whether weights and context fit
// this device. The headers are read by range requests, and the plan that loading would build is built from them, so that
// the answer is the one that loading would give.

import { createBackend } from "../backends/registry.js";
import type { KvCacheType } from "../backends/contract.js";
import { planOf } from "../engine/open-plan.js";
import { fitOf } from "../engine/plan-fit.js";
import { detectArchitecture } from "../architectures/registry.js";
import { RocmForgeError } from "../errors.js";
import { GgufFile } from "../gguf/file.js";
import { GgufLoader } from "../loader/gguf-loader.js";
import { sizeOf } from "./disk-space.js";
import type { PreviewedMemory, ModelPreview } from "./pull-types.js";
import { fetchHeader, headerSource, type RemoteHeader } from "./remote-header.js";
import { presentBytes, type RemoteModel, totalBytes } from "./remote-model.js";

/** On which device the model would run, and how. */
export interface PreviewOptions {
  readonly backend?: string;
  readonly contextTokens?: number;
  readonly kvCacheType?: KvCacheType;
  readonly threads?: number;
  readonly device?: string | number;
}

/** A preview with what it is based on. */
export interface Previewed {
  readonly preview: ModelPreview;
  /** The error with which loading the model here would be refused; undefined if it would run. */
  readonly refusal: RocmForgeError | undefined;
  readonly headers: readonly RemoteHeader[];
}

/** Reads the headers of a model on a server and predicts whether it would run. */
export async function previewRemoteModel(model: RemoteModel, options: PreviewOptions): Promise<Previewed> {
  const headers: RemoteHeader[] = [];
  for (const { file, target } of model.files) {
    const path = (await sizeOf(target.path)) === file.sizeBytes ? target.path : target.partialPath;
    headers.push(await fetchHeader(model.client, file, path));
  }
  const file = GgufFile.fromHeaders(model.name, headers.map(headerSource));
  const known = {
    name: model.name,
    files: model.files.map(({ file: { name, sizeBytes } }) => ({ name, sizeBytes })),
    sizeBytes: totalBytes(model),
    missingBytes: totalBytes(model) - (await presentBytes(model)),
    blockTypes: blockTypesOf(file),
    ...architectureOf(file),
  };
  const { memory, refusal } = await predict(file, options);
  return {
    preview: {
      ...known,
      runs: refusal === undefined,
      ...(refusal === undefined ? {} : { problem: refusal.message }),
      ...(memory === undefined ? {} : { memory }),
    },
    refusal,
    headers,
  };
}

function blockTypesOf(file: GgufFile): ModelPreview["blockTypes"] {
  const bytes = new Map<string, number>();
  for (const { layout, sizeBytes } of file.tensors.values())
    bytes.set(layout.name, (bytes.get(layout.name) ?? 0) + sizeBytes);
  return [...bytes]
    .map(([name, sizeBytes]) => ({ name, sizeBytes }))
    .toSorted((one, other) => other.sizeBytes - one.sizeBytes);
}

function architectureOf({ metadata, tensors }: GgufFile): Pick<ModelPreview, "architecture" | "contextLength"> {
  try {
    const { descriptor, source } = detectArchitecture(metadata, tensors);
    return { architecture: descriptor.name, contextLength: descriptor.readHyperParameters(source).contextLength };
  } catch {
    // The prediction reports what is wrong.
    const stated = metadata.get("general.architecture");
    return typeof stated === "string" ? { architecture: stated } : {};
  }
}

interface Prediction {
  readonly memory?: PreviewedMemory;
  readonly refusal?: RocmForgeError;
}

async function predict(file: GgufFile, options: PreviewOptions): Promise<Prediction> {
  const { backend: name = "auto", threads, device, contextTokens, kvCacheType } = options;
  await using backend = await createBackend(name, {
    ...(threads === undefined ? {} : { threads }),
    ...(device === undefined ? {} : { device }),
  });
  try {
    const { loader, plan } = await planOf(new GgufLoader(file), backend, {
      ...(contextTokens === undefined ? {} : { contextTokens }),
      ...(kvCacheType === undefined ? {} : { kvCacheType }),
    });
    await using _ = loader;
    const { refusal, ...sizes } = fitOf(plan, plan.config.contextTokens);
    const { name: backendName, summary } = backend.description;
    return {
      memory: { backend: backendName, device: summary, ...sizes },
      ...(refusal === undefined ? {} : { refusal }),
    };
  } catch (error) {
    if (error instanceof RocmForgeError) return { refusal: error };
    throw error;
  }
}
