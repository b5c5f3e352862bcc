// One answer of a server, read in bounded portions. Invariants: a connection that is silent for too long is closed; no
// body is read further than the reader asked for; a broken body is a TransientFailure.

import { HubError } from "../errors.js";
import type { Connection } from "./connection.js";
import { TransientFailure } from "./retries.js";

/** How long the end of a body is waited for when all that was wanted of it has come. */
const END_MS = 1000;

/** The answer to a request, after redirects. */
export class HttpAnswer implements Disposable {
  readonly status: number;
  readonly headers: Headers;
  /** The address that answered. */
  readonly url: URL;
  /** The hub's own headers, if it redirected the request to another host. */
  readonly firstHeaders: Headers;
  readonly #response: Response;
  readonly #connection: Connection;
  #silenceMs: number;
  #hasAll = false;

  constructor(
    response: Response,
    url: URL,
    firstHeaders: Headers,
    connection: Connection,
    { silenceMs }: { readonly silenceMs: number },
  ) {
    this.status = response.status;
    this.headers = response.headers;
    this.url = url;
    this.firstHeaders = firstHeaders;
    this.#response = response;
    this.#connection = connection;
    this.#silenceMs = silenceMs;
  }

  /** Says that all wanted bytes have come: the end of the body is waited for, but not for long. */
  expectEnd(): void {
    this.#hasAll = true;
    this.#silenceMs = Math.min(this.#silenceMs, END_MS);
  }

  /** The body as it arrives. Leaving the loop closes the connection. */
  async *chunks(signal?: AbortSignal): AsyncGenerator<Uint8Array, void, undefined> {
    const { body } = this.#response;
    if (body === null) return;
    const reader = body.getReader() as ReadableStreamDefaultReader<Uint8Array>;
    let silence: NodeJS.Timeout | undefined;
    const silent = (): void => this.#connection.end(new TransientFailure(`no data for ${this.#silenceMs / 1000} s`));
    try {
      for (;;) {
        // Set anew for each: writing to a slow disk is not the server's silence.
        silence = setTimeout(silent, this.#silenceMs);
        const { done, value } = await this.#connection.unlessEnded(reader.read());
        clearTimeout(silence);
        if (done) return;
        yield value;
      }
    } catch (error) {
      signal?.throwIfAborted();
      if (!this.#hasAll) throw transientFrom(error, "the connection broke");
    } finally {
      clearTimeout(silence);
      // Not waited for: a stream that does not tell of its end may not tell of this either.
      void reader.cancel().catch(() => {});
    }
  }

  /** The whole body; HUB_RESPONSE if it is longer than `limitBytes`. */
  async bytes(limitBytes: number, signal?: AbortSignal): Promise<Buffer> {
    const chunks: Uint8Array[] = [];
    let length = 0;
    for await (const chunk of this.chunks(signal)) {
      length += chunk.byteLength;
      if (length > limitBytes)
        throw new HubError("HUB_RESPONSE", `[hub] ${this.url.host}: expected at most ${limitBytes} bytes, found more`, {
          details: { url: printableUrl(this.url), limitBytes },
        });
      chunks.push(chunk);
    }
    return Buffer.concat(chunks);
  }

  /** Closes the connection without reading the rest. */
  [Symbol.dispose](): void {
    this.#connection[Symbol.dispose]();
    void this.#response.body?.cancel().catch(() => {});
  }
}

/** An address without its query, which may contain a signature. */
export function printableUrl(url: URL): string {
  return `${url.origin}${url.pathname}`;
}

/** The reason of a failed connection in words. */
export function transientFrom(error: unknown, what: string): TransientFailure {
  if (error instanceof TransientFailure) return error;
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  const code = cause instanceof Error && "code" in cause ? String(cause.code) : "";
  const reason = REASONS[code] ?? (cause instanceof Error ? cause.message : String(cause));
  return new TransientFailure(`${what}: ${reason}${code === "" ? "" : ` (${code})`}`, { cause: error });
}

const REASONS: Readonly<Record<string, string>> = {
  ENOTFOUND: "its name cannot be resolved",
  EAI_AGAIN: "its name cannot be resolved",
  ECONNREFUSED: "it refuses connections",
  ECONNRESET: "it closed the connection",
  UND_ERR_SOCKET: "it closed the connection",
  UND_ERR_CONNECT_TIMEOUT: "it does not answer",
  UND_ERR_HEADERS_TIMEOUT: "it does not answer",
};
