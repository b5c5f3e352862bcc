// Access to the server: API keys, the host names that it answers to, and the web pages that may read its responses.
// Invariants: keys are compared in constant time and never logged; a page of another origin gets nothing unless it is
// listed, not even by pointing its own host name at this machine, because unknown host names are refused.

import { createHash, timingSafeEqual } from "node:crypto";
import { RequestError } from "./request-error.js";

/** Which clients have access to the server. */
export interface AccessRules {
  /** If empty, no key is needed. */
  readonly apiKeys: readonly string[];
  /** Origins of web pages that may read responses; "*" allows all. */
  readonly corsOrigins: readonly string[];
  /** Host names that requests may be addressed to, without port; if empty, any name is allowed. */
  readonly allowedHosts: readonly string[];
}

/** The headers that access depends on. */
interface RequestHeaders {
  readonly [name: string]: string | string[] | undefined;
}

/** The host names of localhost. */
export const LOOPBACK_HOSTS = ["localhost", "127.0.0.1", "::1"] as const;
const PREFLIGHT_SECONDS = "600";
const EXPOSED_HEADERS = "x-request-id, request-id, retry-after";

/** Whether only this machine can connect to a host. */
export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || /^127\.\d+\.\d+\.\d+$/.test(host);
}

/** Digests have one length, so comparing them takes the same time for every key. */
function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

/** Checks host names, keys and origins of requests. */
export class AccessControl {
  readonly #rules: AccessRules;
  readonly #keyDigests: readonly Buffer[];

  constructor(rules: AccessRules) {
    this.#rules = rules;
    this.#keyDigests = rules.apiKeys.map(digest);
  }

  /**
   * Throws if the request is addressed to an unknown host name, such as that of a web page pointed at this machine.
   * Browsers always send the name; a request without one (HTTP/1.0, as in health checks of load balancers) comes from
   * no page.
   */
  checkHost(headers: RequestHeaders): void {
    const { allowedHosts } = this.#rules;
    if (allowedHosts.length === 0 || headers["host"] === undefined) return;
    const host = hostName(single(headers["host"]));
    if (host !== undefined && (allowedHosts.includes(host) || (isLoopback(host) && allowedHosts.includes("localhost"))))
      return;
    throw new RequestError("[host] this host name is not allowed; add it to the option allowedHosts", {
      status: 403,
      code: "host_not_allowed",
    });
  }

  checkKey(headers: RequestHeaders): void {
    if (this.#keyDigests.length === 0 || this.#knownKey(headers) !== undefined) return;
    const problem =
      keysOf(headers).length === 0 ? "expected an API key, found none" : "the API key is not one of this server's";
    throw new RequestError(`[authorization] ${problem}; send Authorization: Bearer KEY, or x-api-key: KEY`, {
      status: 401,
      code: "invalid_api_key",
    });
  }

  /** Identifies the API key of a request by its digest, never by the key itself; "" if the server has no keys. */
  owner(headers: RequestHeaders): string {
    return this.#knownKey(headers)?.toString("hex") ?? "";
  }

  /** Compares every key with every digest, so that timing does not reveal which one matched. */
  #knownKey(headers: RequestHeaders): Buffer | undefined {
    let known: Buffer | undefined;
    for (const given of keysOf(headers).map(digest)) {
      for (const expected of this.#keyDigests) if (timingSafeEqual(given, expected)) known = expected;
    }
    return known;
  }

  /** The CORS headers for a web page; undefined for a page that is not listed, and for a client that is not a page. */
  corsHeaders(headers: RequestHeaders): Readonly<Record<string, string>> | undefined {
    const origin = single(headers["origin"]);
    const { corsOrigins } = this.#rules;
    if (origin === undefined || corsOrigins.length === 0) return undefined;
    const all = corsOrigins.includes("*");
    if (!all && !corsOrigins.includes(origin)) return undefined;
    return {
      "access-control-allow-origin": all ? "*" : origin,
      "access-control-expose-headers": EXPOSED_HEADERS,
      ...(all ? {} : { vary: "Origin" }),
    };
  }

  /** The further headers of a response to a CORS preflight. */
  preflightHeaders(headers: RequestHeaders): Readonly<Record<string, string>> {
    const asked = single(headers["access-control-request-headers"]);
    return {
      "access-control-allow-methods": "GET, HEAD, POST, DELETE, OPTIONS",
      "access-control-allow-headers": asked ?? "content-type, authorization, x-api-key",
      "access-control-max-age": PREFLIGHT_SECONDS,
    };
  }
}

function keysOf(headers: RequestHeaders): readonly string[] {
  return [bearer(single(headers["authorization"])), single(headers["x-api-key"])].filter((key) => key !== undefined);
}

function single(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value[0] : value;
}

function bearer(value: string | undefined): string | undefined {
  const [, key] = /^Bearer +(\S+) *$/i.exec(value ?? "") ?? [];
  return key;
}

/** `[::1]:8080` and `localhost:8080` without port and brackets. */
function hostName(value: string | undefined): string | undefined {
  const [, bracketed, plain] = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]]+))(?::\d+)?$/.exec(value ?? "") ?? [];
  return (bracketed ?? plain)?.toLowerCase();
}
