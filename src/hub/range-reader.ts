// Reads ranges of a remote file, in order and in full, through interruptions. Invariants: no byte outside the range is
// passed on, whatever a server sends; an answer whose identity, size or position is not the expected one is refused;
// the hub is asked again when a signed address has expired.

import { HubError } from "../errors.js";
import { type HttpAnswer, printableUrl } from "./http-answer.js";
import type { HttpClient } from "./http-client.js";
import { FileChanged, plainEtag, type RemoteFile, validatorOf } from "./remote-file.js";
import { Retries, TransientFailure } from "./retries.js";

const CONTENT_RANGE = /^bytes (?<start>\d{1,15})-(?<end>\d{1,15})\/(?<size>\d{1,15}|\*)$/;

/** Takes bytes as they arrive. */
export type ByteSink = (chunk: Uint8Array) => Promise<void>;

/** What to read. */
interface ByteRange {
  readonly start: number;
  /** Exclusive. */
  readonly end: number;
  /** Where to stop if the server ignores ranges and sends the whole file; `end` if it is not given. */
  readonly wholeEnd?: number;
}

/** Reads ranges of one remote file. */
export class RangeReader {
  readonly #client: HttpClient;
  readonly #file: RemoteFile;
  readonly #retries: Retries;
  /** The address that the hub redirected to, used again until it is refused. */
  #resolved: URL | undefined;

  constructor(client: HttpClient, file: RemoteFile) {
    this.#client = client;
    this.#file = file;
    this.#retries = new Retries(client.place, client.policy, client.signal);
  }

  /** Passes the bytes of a range to `sink`; returns the position after the last one. */
  async read({ start, end, wholeEnd = end }: ByteRange, sink: ByteSink): Promise<number> {
    let position = start;
    const advance: ByteSink = async (chunk) => {
      await sink(chunk);
      position += chunk.byteLength;
      this.#retries.progress(chunk.byteLength);
    };
    await this.#retries.run(async () => {
      if (position < end) await this.#readOnce({ start: position, end, wholeEnd }, advance);
    });
    return position;
  }

  async #readOnce({ start, end, wholeEnd }: Required<ByteRange>, sink: ByteSink): Promise<void> {
    using answer = await this.#open(start, end);
    const isPart = answer.status === 206;
    if (isPart) this.#requireRange(answer, start, end);
    else this.#requireWhole(answer);
    let skip = isPart ? 0 : start;
    let wanted = (isPart ? end : wholeEnd) - start;
    // A body that ends where it should is read to its end, which keeps the connection for the next range.
    const endsThere = answer.headers.get("content-length") === String(skip + wanted);
    for await (const chunk of answer.chunks(this.#client.signal)) {
      const skipped = Math.min(skip, chunk.byteLength);
      skip -= skipped;
      const taken = chunk.subarray(skipped, skipped + wanted);
      wanted -= taken.byteLength;
      if (taken.byteLength > 0) await sink(taken);
      if (wanted > 0) continue;
      if (!endsThere) return;
      answer.expectEnd();
    }
    if (wanted === 0) return;
    throw new TransientFailure(`${answer.url.host} ended its answer ${wanted} bytes early`);
  }

  async #open(start: number, end: number): Promise<HttpAnswer> {
    const { url, statedBy } = this.#file;
    const headers = { Range: `bytes=${start}-${end - 1}` };
    if (this.#resolved !== undefined) {
      const answer = await this.#openResolved(this.#resolved, headers);
      if (statedBy === "host") this.#requireSame(answer, validatorOf(answer.headers));
      return answer;
    }
    const answer = await this.#openListed(url, headers);
    this.#requireSame(answer, statedBy === "hub" ? hubTag(answer) : validatorOf(answer.headers));
    if (answer.url.href !== url.href) this.#resolved = answer.url;
    return answer;
  }

  /** A file that the hub has just listed and does not have any more was replaced, with its commit. */
  async #openListed(url: URL, headers: Readonly<Record<string, string>>): Promise<HttpAnswer> {
    try {
      return await this.#client.open(url, { headers });
    } catch (error) {
      const isGone = error instanceof HubError && error.code === "HUB_NOT_FOUND" && this.#file.statedBy === "hub";
      throw isGone ? new FileChanged(this.#file.name) : error;
    }
  }

  async #openResolved(url: URL, headers: Readonly<Record<string, string>>): Promise<HttpAnswer> {
    try {
      return await this.#client.open(url, { headers });
    } catch (error) {
      this.#resolved = undefined;
      if (!(error instanceof HubError)) throw error;
      throw new TransientFailure("the address of the file has expired", { cause: error });
    }
  }

  #requireSame(answer: HttpAnswer, stated: string | undefined): void {
    const { etag, name } = this.#file;
    if (etag === undefined || stated === undefined || stated === etag) return;
    using _ = answer;
    throw new FileChanged(name);
  }

  #requireRange({ headers, url }: HttpAnswer, start: number, end: number): void {
    const found = headers.get("content-range");
    const range = CONTENT_RANGE.exec(found?.trim() ?? "")?.groups;
    const isRight =
      range !== undefined &&
      Number(range["start"]) === start &&
      Number(range["end"]) < end &&
      (range["size"] === "*" || Number(range["size"]) === this.#file.sizeBytes);
    if (!isRight) throw this.#lie(`bytes ${start}-${end - 1}/${this.#file.sizeBytes}`, String(found), url);
  }

  #requireWhole({ headers, url }: HttpAnswer): void {
    const length = headers.get("content-length");
    if (length !== null && Number(length) !== this.#file.sizeBytes)
      throw this.#lie(`${this.#file.sizeBytes} bytes`, `a length of ${length.slice(0, 40)}`, url);
  }

  #lie(expected: string, found: string, url: URL): HubError {
    const message = `[hub] ${this.#client.place}: ${this.#file.name}: expected ${expected}, found ${found.slice(0, 80)}`;
    return new HubError("HUB_RESPONSE", message, { details: { url: printableUrl(url), expected, found } });
  }
}

/** The tag of a file as the hub states it; a host that it redirects to has tags of its own. */
function hubTag({ firstHeaders, headers }: HttpAnswer): string | undefined {
  const linked = plainEtag(firstHeaders.get("x-linked-etag"));
  return linked ?? (firstHeaders === headers ? plainEtag(headers.get("etag")) : undefined);
}
