// GET /api/tags, /api/ps and /api/version, and POST /api/show: how Ollama's clients find a server and its models.

import { createHash } from "node:crypto";
import { z } from "zod";
import type { ModelListing, ModelPool } from "../../../engine/serving.js";
import { RocmForgeError } from "../../../errors.js";
import {
  type PlainRoute,
  type PostRoute,
  requestedModel,
  type Route,
  type ServerContext,
} from "../../completion/route-context.js";
import { RequestError } from "../../http/request-error.js";
import { modelField } from "../../schema/fields.js";
import { type DescribedFile, DescribedFiles } from "./model-file.js";
import { taggedName } from "./model-names.js";

/**
 * The version of Ollama whose API this is. Clients compare it with the one that they need: this is the first that also has
 * /v1/responses and /v1/messages, as this server does.
 */
const API_VERSION = "0.14.0";
/** For models that are not unloaded: Ollama gives a time in the far future as well. */
const NEVER = "9999-12-31T23:59:59Z";

/** Backends that hold a model's weights in the memory of a GPU. */
const GPU_BACKENDS: ReadonlySet<string> = new Set(["hip", "cuda"]);

const showFields = z.object({
  model: modelField.optional(),
  name: modelField.optional().describe("The older name of model"),
  verbose: z.boolean().optional().describe("Without effect: arrays of the metadata are null"),
});

type ShowBody = z.infer<typeof showFields>;

/** The endpoints that describe the server and its models. */
export function ollamaModels(context: ServerContext): readonly Route[] {
  const files = new DescribedFiles();
  const { pool } = context.options;
  const show: PostRoute<ShowBody> = {
    method: "POST",
    path: "/api/show",
    summary: "What a model's file says about it, in Ollama's API",
    schema: { fields: showFields, withoutEffect: ["system", "template", "options"], refused: {} },
    handle: ({ body }) => shownModel(context, files, body),
  };
  return [VERSION, tags(pool, files), loaded(pool, files), show];
}

const VERSION: PlainRoute = {
  method: "GET",
  path: "/api/version",
  summary: "The version of Ollama's API",
  handle: (_, reply) => reply.send({ version: API_VERSION }),
};

function tags(pool: ModelPool, files: DescribedFiles): PlainRoute {
  return {
    method: "GET",
    path: "/api/tags",
    summary: "The models that are served, in Ollama's API",
    handle: async (_, reply) => {
      const models = pool.list().map(async (listing) => ({
        ...(await listed(files, listing)),
        modified_at: timeText(listing.created),
      }));
      return reply.send({ models: await Promise.all(models) });
    },
  };
}

function loaded(pool: ModelPool, files: DescribedFiles): PlainRoute {
  return {
    method: "GET",
    path: "/api/ps",
    summary: "The models that are loaded, in Ollama's API",
    handle: async (_, reply) => {
      const running = pool.list().filter(({ state }) => state === "loaded");
      const models = running.map(async (listing) => {
        const { backend = "", contextTokens = 0, unloadAtMs } = listing;
        const entry = await listed(files, listing);
        return {
          ...entry,
          expires_at: unloadAtMs === undefined ? NEVER : new Date(unloadAtMs).toISOString(),
          size_vram: GPU_BACKENDS.has(backend) ? entry.size : 0,
          context_length: contextTokens,
        };
      });
      return reply.send({ models: await Promise.all(models) });
    },
  };
}

async function listed(files: DescribedFiles, listing: ModelListing) {
  const file = await readable(files, listing);
  const name = taggedName(listing.name);
  return {
    name,
    model: name,
    size: file?.sizeBytes ?? 0,
    digest: digestOf(listing, file),
    details: detailsOf(file),
  };
}

/** A file that cannot be read does not hide the other models of a list. */
async function readable(files: DescribedFiles, listing: ModelListing): Promise<DescribedFile | undefined> {
  try {
    return await files.of(listing);
  } catch (error) {
    if (error instanceof RocmForgeError) return undefined;
    throw error;
  }
}

/** Changes with the file: clients only compare it. Hashing the weights themselves would take minutes. */
function digestOf({ name, created }: ModelListing, file: DescribedFile | undefined): string {
  return createHash("sha256")
    .update(JSON.stringify([name, created, file?.sizeBytes]))
    .digest("hex");
}

function detailsOf(file: DescribedFile | undefined): object {
  const family = file?.architecture ?? "";
  return {
    parent_model: "",
    format: "gguf",
    family,
    families: family === "" ? null : [family],
    parameter_size: file === undefined ? "" : countText(file.parameters),
    quantization_level: file?.quantization ?? "",
  };
}

const UNITS: readonly (readonly [least: number, unit: string])[] = [
  [1e12, "T"],
  [1e9, "B"],
  [1e6, "M"],
  [1e3, "K"],
];

/** A number of parameters as Ollama writes it: 10.2M, 8.0B. */
export function countText(count: number): string {
  const [least, unit] = UNITS.find(([smallest]) => count >= smallest) ?? [1, ""];
  return unit === "" ? String(count) : `${(count / least).toFixed(1)}${unit}`;
}

async function shownModel({ options }: ServerContext, files: DescribedFiles, body: ShowBody): Promise<object> {
  const name = requestedModel(options, body.model ?? body.name);
  const listing = options.pool.list().find((model) => model.name === name);
  if (listing === undefined) {
    throw new RequestError(`no model "${name}" is served; GET /api/tags lists them`, {
      status: 404,
      code: "model_not_found",
      param: "model",
    });
  }
  const file = await files.of(listing);
  return {
    modelfile: `# ${taggedName(name)} is served by rocmforge from a file; it was not made from a Modelfile.\n`,
    parameters: "",
    template: file.template,
    details: detailsOf(file),
    model_info: modelInfo(file, listing),
    capabilities: capabilitiesOf(file),
    modified_at: timeText(listing.created),
  };
}

/** The metadata; the context length is the one that requests have, which may be less than the model's own. */
function modelInfo(
  { architecture, parameters, contextTokens, metadata }: DescribedFile,
  listing: ModelListing,
): object {
  return {
    ...metadata,
    "general.architecture": architecture,
    "general.parameter_count": parameters,
    [`${architecture}.context_length`]: listing.contextTokens ?? contextTokens ?? null,
  };
}

function capabilitiesOf({ callsTools, reasons }: DescribedFile): readonly string[] {
  return ["completion", ...(callsTools ? ["tools"] : []), ...(reasons ? ["thinking"] : [])];
}

function timeText(seconds: number): string {
  return new Date(seconds * 1000).toISOString();
}
