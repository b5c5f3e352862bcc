// Models that Ollama has pulled, read where they lie: `manifests/<host>/<namespace>/<name>/<tag>` names the layers, and
// the one of type `application/vnd.ollama.image.model` is the blob `sha256-…`, a GGUF. Nothing is written there.

import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { detectArchitecture } from "../architectures/registry.js";
import { HubError, RocmForgeError } from "../errors.js";
import { GgufFile } from "../gguf/file.js";
import { isPlainObject } from "../plain-object.js";
import { folderNames } from "./cache-layout.js";
import type { HubSettings } from "./hub-settings.js";
import type { OllamaReference } from "./model-reference.js";
import type { ListedModel } from "./pull-types.js";

const MODEL_LAYER = "application/vnd.ollama.image.model";
/** Layers without which the model would not be the one that Ollama runs. */
const REFUSED_LAYERS: Readonly<Record<string, string>> = {
  "application/vnd.ollama.image.adapter": "a LoRA adapter, which is not applied here",
  "application/vnd.ollama.image.tensor": "tensors in files of their own instead of a GGUF",
};
const DIGEST = /^sha256:(?<hex>[0-9a-f]{64})$/;
const MAX_MANIFEST_BYTES = 1024 * 1024;
const MAX_LAYERS = 4096;

interface Layer {
  readonly type: string;
  readonly digest: string;
}

/** The path of the GGUF of a model of Ollama's; refuses one that is not a plain GGUF of a supported family. */
export async function findOllamaModel({ ollamaFolders }: HubSettings, reference: OllamaReference): Promise<string> {
  for (const folder of ollamaFolders) {
    const path = join(folder, "manifests", ...reference.folders, reference.tag);
    const layers = await readLayers(reference.label, path);
    if (layers === undefined) continue;
    const blob = join(folder, "blobs", modelBlob(reference.label, layers));
    await requireKnownFamily(reference.label, blob);
    return blob;
  }
  const searched = ollamaFolders.length === 0 ? "no folder of Ollama's" : ollamaFolders.join(", ");
  const message = `[hub] ollama:${reference.label}: expected a model that Ollama has pulled, found none (searched: ${searched}); \`ollama pull ${reference.label}\` fetches it, and OLLAMA_MODELS names another folder`;
  throw new HubError("HUB_NOT_FOUND", message, { details: { name: reference.label, searched: ollamaFolders } });
}

/** The models that Ollama has pulled. */
export async function listOllamaModels({ ollamaFolders }: HubSettings): Promise<readonly ListedModel[]> {
  const found: ListedModel[] = [];
  for (const folder of ollamaFolders) {
    const manifests = join(folder, "manifests");
    for (const host of await folderNames(manifests))
      for (const namespace of await folderNames(join(manifests, host)))
        for (const name of await folderNames(join(manifests, host, namespace)))
          for (const tag of await folderNames(join(manifests, host, namespace, name))) {
            const model = await listed(folder, [host, namespace, name], tag);
            if (model !== undefined) found.push(model);
          }
  }
  return found;
}

async function listed(
  folder: string,
  [host, namespace, name]: OllamaReference["folders"],
  tag: string,
): Promise<ListedModel | undefined> {
  const isPlain = host === "registry.ollama.ai";
  const place = isPlain ? (namespace === "library" ? name : `${namespace}/${name}`) : `${host}/${namespace}/${name}`;
  try {
    const layers = await readLayers(place, join(folder, "manifests", host, namespace, name, tag));
    const path = join(folder, "blobs", modelBlob(place, layers ?? []));
    const { size, mtime } = await stat(path);
    return {
      name: `ollama:${place}:${tag}`,
      source: "ollama",
      path,
      sizeBytes: size,
      unfinished: false,
      modified: mtime,
    };
  } catch {
    // A model that would be refused is not listed.
    return undefined;
  }
}

/** The layers of a manifest; undefined if there is no such manifest. */
async function readLayers(label: string, path: string): Promise<readonly Layer[] | undefined> {
  let text: string;
  try {
    if ((await stat(path)).size > MAX_MANIFEST_BYTES) throw refusal(label, "its manifest is too long");
    text = await readFile(path, "utf8");
  } catch (error) {
    if (error instanceof HubError) throw error;
    return undefined;
  }
  let manifest: unknown;
  try {
    manifest = JSON.parse(text);
  } catch {
    throw refusal(label, "its manifest is not JSON");
  }
  const layers = isPlainObject(manifest) ? manifest["layers"] : undefined;
  if (!Array.isArray(layers) || layers.length > MAX_LAYERS) throw refusal(label, "its manifest lists no layers");
  return layers.flatMap((layer: unknown) => {
    const { mediaType, digest } = isPlainObject(layer) ? layer : {};
    return typeof mediaType === "string" && typeof digest === "string" ? [{ type: mediaType, digest }] : [];
  });
}

function modelBlob(label: string, layers: readonly Layer[]): string {
  for (const { type } of layers)
    if (Object.hasOwn(REFUSED_LAYERS, type)) throw refusal(label, `it has ${REFUSED_LAYERS[type]}`);
  const models = layers.filter(({ type }) => type === MODEL_LAYER);
  if (models.length !== 1) throw refusal(label, `it has ${models.length} model layers instead of one`);
  const hex = DIGEST.exec(models[0].digest)?.groups?.["hex"];
  if (hex === undefined) throw refusal(label, "the digest of its model layer is not a SHA-256");
  return `sha256-${hex}`;
}

async function requireKnownFamily(label: string, path: string): Promise<void> {
  try {
    using file = await GgufFile.open(path, { mapping: "off" });
    detectArchitecture(file.metadata, file.tensors);
  } catch (error) {
    if (!(error instanceof RocmForgeError)) throw error;
    throw refusal(label, `it is not a plain GGUF of a supported family: ${error.message}`, error);
  }
}

function refusal(label: string, reason: string, cause?: unknown): HubError {
  return new HubError("HUB_OLLAMA", `[hub] ollama:${label}: ${reason}; use a GGUF of the model from the hub (hf:…)`, {
    details: { name: label, reason },
    cause,
  });
}
