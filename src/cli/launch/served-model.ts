// Asks a running server for the models that it serves. What answers may be any program: its answer is bounded and checked.

import { ServingError } from "../../errors.js";
import { didYouMean } from "../../nearest.js";
import { isPlainObject, parsedJson } from "../../plain-object.js";
import { API_KEYS_VARIABLE } from "../serve/api-keys.js";

const TIMEOUT_MS = 10_000;
const MAX_ANSWER_BYTES = 2 ** 20;
const UNAUTHORIZED_STATUS = 401;

/** A model of a running server. */
export interface ServedModel {
  readonly name: string;
  /** Undefined if the model is not loaded yet. */
  readonly contextTokens: number | undefined;
}

/** The model of that name, or the first one that the server has. */
export async function servedModel(
  url: string,
  apiKey: string | undefined,
  name: string | undefined,
): Promise<ServedModel> {
  const models = modelsOf(await ask(url, apiKey));
  const [first] = models;
  if (first === undefined) throw unreachable(url, "it lists no models, so it is not a server of this kind");
  const found = name === undefined ? first : models.find((model) => model.name === name);
  if (found !== undefined) return found;
  const names = models.map((model) => model.name);
  throw new ServingError(
    "SERVING_MODEL_UNKNOWN",
    `[launch] ${url} serves no model "${name}";${didYouMean(name ?? "", names)} it serves ${names.join(", ")}`,
    { details: { model: name, known: names } },
  );
}

async function ask(url: string, apiKey: string | undefined): Promise<string> {
  try {
    const response = await fetch(`${url}/v1/models`, {
      headers: apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` },
      redirect: "error",
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    if (response.ok) return await boundedText(response);
    const reason =
      response.status === UNAUTHORIZED_STATUS
        ? `it needs an API key; pass --api-key-file, or set ${API_KEYS_VARIABLE}`
        : `it answers /v1/models with status ${response.status}`;
    throw unreachable(url, reason);
  } catch (error) {
    if (error instanceof ServingError) throw error;
    throw unreachable(url, "start one with `rocmforge serve`, or pass -m FILE to start one here", error);
  }
}

async function boundedText(response: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let sizeBytes = 0;
  for await (const chunk of (response.body ?? []) as AsyncIterable<Uint8Array>) {
    sizeBytes += chunk.byteLength;
    if (sizeBytes > MAX_ANSWER_BYTES) throw new RangeError("the answer is too long");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

function modelsOf(text: string): readonly ServedModel[] {
  const answer = parsedJson(text);
  const data: unknown = isPlainObject(answer) ? answer["data"] : undefined;
  return (Array.isArray(data) ? (data as readonly unknown[]) : []).flatMap((model) => {
    if (!isPlainObject(model) || typeof model["id"] !== "string") return [];
    const length = model["context_length"];
    return [{ name: model["id"], contextTokens: typeof length === "number" ? length : undefined }];
  });
}

function unreachable(url: string, reason: string, cause?: unknown): ServingError {
  return new ServingError("SERVING_UNREACHABLE", `[launch] no server can be used at ${url}: ${reason}`, {
    details: { url },
    ...(cause === undefined ? {} : { cause }),
  });
}
