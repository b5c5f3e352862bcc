// Requests to the hub and to the hosts that it redirects to. Invariants: the token is sent to the hub's own origin and
// to no other, whatever a redirect says; a redirect never leads from https to http; every failure is a HubError or a
// TransientFailure, and no message contains a token or a signed address.

import { HubError } from "../errors.js";
import { PACKAGE_VERSION } from "../package-files.js";
import { Connection } from "./connection.js";
import { HttpAnswer, printableUrl, transientFrom } from "./http-answer.js";
import { type RetryPolicy, TransientFailure } from "./retries.js";

const MAX_REDIRECTS = 5;
const REDIRECTS = [301, 302, 303, 307, 308];
const MS_PER_SECOND = 1000;
/** The tag of a file that the hub redirects to another host. */
const LINKED_TAG = "x-linked-etag";
/** Statuses that another try may change. */
const TRANSIENT = [408, 425, 500, 502, 503, 504, 520, 522, 524];

/** Whom the client talks to, and as whom. */
export interface ClientOptions {
  /** The model's name, with which messages begin. */
  readonly place: string;
  /** The hub's address, whose origin gets the token. */
  readonly endpoint: string;
  readonly token: string | undefined;
  readonly policy: RetryPolicy;
  readonly signal?: AbortSignal | undefined;
}

/** What to request. */
interface HttpRequest {
  readonly method?: "GET" | "HEAD";
  readonly headers?: Readonly<Record<string, string>>;
}

/** Sends requests for one model. */
export class HttpClient {
  readonly place: string;
  readonly signal: AbortSignal | undefined;
  readonly policy: RetryPolicy;
  readonly #hubOrigin: string;
  readonly #token: string | undefined;

  constructor({ place, endpoint, token, policy, signal }: ClientOptions) {
    this.place = place;
    this.policy = policy;
    this.signal = signal;
    this.#hubOrigin = new URL(endpoint).origin;
    this.#token = token;
  }

  /** One try of a request, with its redirects. */
  async open(address: URL, request: HttpRequest = {}): Promise<HttpAnswer> {
    let url = address;
    let first: Headers | undefined;
    for (let redirects = 0; redirects <= MAX_REDIRECTS; redirects++) {
      const answer = await this.#send(url, request, first);
      if (!REDIRECTS.includes(answer.status)) {
        if (answer.status >= 200 && answer.status < 300) return this.#requirePlain(answer);
        using _ = answer;
        throw this.#failure(answer);
      }
      using _ = answer;
      // A renamed repository redirects within the hub first.
      if (first === undefined || (url.origin === this.#hubOrigin && answer.headers.has(LINKED_TAG)))
        first = answer.headers;
      url = this.#redirected(url, answer.headers.get("location"));
    }
    throw new HubError("HUB_RESPONSE", `[hub] ${this.place}: more than ${MAX_REDIRECTS} redirects`, {
      details: { url: printableUrl(address) },
    });
  }

  async #send(url: URL, { method = "GET", headers = {} }: HttpRequest, first: Headers | undefined) {
    this.signal?.throwIfAborted();
    const connection = new Connection(this.signal);
    const { silenceMs } = this.policy;
    const timer = setTimeout(
      () => connection.end(new TransientFailure(`${url.host} does not answer within ${silenceMs / MS_PER_SECOND} s`)),
      silenceMs,
    );
    const isHub = url.origin === this.#hubOrigin && this.#token !== undefined;
    try {
      const sent = fetch(url, {
        method,
        redirect: "manual",
        signal: connection.signal,
        headers: {
          // Anything else would make lengths and offsets those of compressed data.
          "Accept-Encoding": "identity",
          "User-Agent": `rocmforge/${PACKAGE_VERSION}; node/${process.versions.node}`,
          ...headers,
          ...(isHub ? { Authorization: `Bearer ${this.#token}` } : {}),
        },
      });
      const response = await connection.unlessEnded(sent);
      return new HttpAnswer(response, url, first ?? response.headers, connection, this.policy);
    } catch (error) {
      connection[Symbol.dispose]();
      this.signal?.throwIfAborted();
      throw transientFrom(error, `${url.host} cannot be reached`);
    } finally {
      clearTimeout(timer);
    }
  }

  #redirected(from: URL, location: string | null): URL {
    const to = location !== null && URL.canParse(location, from.href) ? new URL(location, from.href) : undefined;
    const isSafe = to !== undefined && (to.protocol === "https:" || to.protocol === from.protocol);
    if (isSafe && /^https?:$/.test(to.protocol)) return to;
    const found = to === undefined ? "none" : `one to ${to.protocol}`;
    throw new HubError("HUB_RESPONSE", `[hub] ${this.place}: expected a redirect to an https address, found ${found}`, {
      details: { url: printableUrl(from) },
    });
  }

  #requirePlain(answer: HttpAnswer): HttpAnswer {
    const encoding = answer.headers.get("content-encoding") ?? "identity";
    if (encoding === "identity") return answer;
    using _ = answer;
    const message = `[hub] ${this.place}: expected an uncompressed answer, found Content-Encoding ${JSON.stringify(encoding.slice(0, 40))}`;
    throw new HubError("HUB_RESPONSE", message, { details: { url: printableUrl(answer.url) } });
  }

  #failure({ status, url, headers }: HttpAnswer): Error {
    if (status === 429) {
      const retryAfterMs = retryAfter(headers.get("retry-after"));
      return new TransientFailure("too many requests (429)", {
        isRateLimit: true,
        ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
      });
    }
    if (TRANSIENT.includes(status)) {
      const retryAfterMs = retryAfter(headers.get("retry-after"));
      return new TransientFailure(`${url.host} answered ${status}`, retryAfterMs === undefined ? {} : { retryAfterMs });
    }
    const details = { url: printableUrl(url), status };
    const isHub = url.origin === this.#hubOrigin;
    if (status === 401 || status === 403)
      return new HubError("HUB_ACCESS", `[hub] ${this.place}: ${this.#accessAdvice(status, isHub)}`, { details });
    if (status === 404 || status === 410)
      return new HubError(
        "HUB_NOT_FOUND",
        `[hub] ${this.place}: ${url.host} has no ${missingOf(headers.get("x-error-code"))} (${status}); check the name`,
        { details },
      );
    return new HubError("HUB_RESPONSE", `[hub] ${this.place}: expected a file, found status ${status} of ${url.host}`, {
      details,
    });
  }

  #accessAdvice(status: number, isHub: boolean): string {
    if (!isHub) return `access was refused (${status}) by the host of the file; try again`;
    if (this.#token === undefined)
      return `access was refused (${status}): the model is private or gated, or does not exist; set HF_TOKEN to a token that may read it`;
    return status === 401
      ? "the token was refused (401); check HF_TOKEN, or the file `token` in the Hugging Face home"
      : "access was refused (403): open the model's page on the hub and accept its conditions, or use a token that may read it";
  }
}

function missingOf(code: string | null): string {
  if (code === "RepoNotFound") return "such repository";
  if (code === "RevisionNotFound") return "such branch or commit";
  return "such file or repository";
}

/** The pause that `Retry-After` asks for: seconds, or a date; undefined if it says neither. */
export function retryAfter(text: string | null, nowMs = Date.now()): number | undefined {
  if (text === null) return undefined;
  if (/^\d{1,9}$/.test(text.trim())) return Number(text) * MS_PER_SECOND;
  const date = Date.parse(text);
  return Number.isNaN(date) ? undefined : Math.max(0, date - nowMs);
}
