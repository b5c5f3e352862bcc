// Requests to the server that this page came from: adds the API key, and turns error responses into `ApiError`.

import { signal } from "@preact/signals";

const KEY_ITEM = "rocmforge.api-key";
const UNAUTHORIZED = 401;

/** The API key that requests carry; empty if none is set. */
export const apiKey = signal(localStorage.getItem(KEY_ITEM) ?? sessionStorage.getItem(KEY_ITEM) ?? "");
/** Whether the server has refused a request for its key, so that the page has to ask for one. */
export const isKeyRefused = signal(false);

/** Sets the key; `remember` keeps it after the browser is closed. */
export function setApiKey(key: string, remember: boolean): void {
  localStorage.removeItem(KEY_ITEM);
  sessionStorage.removeItem(KEY_ITEM);
  if (key !== "") (remember ? localStorage : sessionStorage).setItem(KEY_ITEM, key);
  apiKey.value = key;
  isKeyRefused.value = false;
}

/** A request that the server refused or could not answer. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;

  constructor(message: string, status: number, code: string) {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.code = code;
  }
}

interface RequestOptions {
  /** Sent as JSON with POST. */
  readonly body?: object;
  readonly accept?: string;
  readonly signal?: AbortSignal;
}

/** Sends a request; rejects with ApiError unless its status is a success. */
export async function request(path: string, { body, accept, signal: aborted }: RequestOptions = {}): Promise<Response> {
  const response = await fetch(path, {
    method: body === undefined ? "GET" : "POST",
    headers: {
      ...(apiKey.value === "" ? {} : { authorization: `Bearer ${apiKey.value}` }),
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...(accept === undefined ? {} : { accept }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    ...(aborted === undefined ? {} : { signal: aborted }),
    cache: "no-store",
  }).catch((error: unknown) => {
    if (aborted?.aborted === true) throw error;
    throw new ApiError("The server cannot be reached. Is it still running?", 0, "unreachable");
  });
  if (response.ok) return response;
  if (response.status === UNAUTHORIZED) isKeyRefused.value = true;
  throw await errorOf(response);
}

async function errorOf(response: Response): Promise<ApiError> {
  const fallback = `The server answered with status ${response.status}.`;
  try {
    const { error } = (await response.json()) as { error?: { message?: string; code?: string } };
    return new ApiError(readable(error?.message ?? fallback), response.status, error?.code ?? "");
  } catch {
    return new ApiError(fallback, response.status, "");
  }
}

/** Without the place in brackets that server messages begin with. */
export function readable(message: string): string {
  const text = message.replace(/^\[[^\]]*\] /, "");
  return text.charAt(0).toUpperCase() + text.slice(1);
}
