// A hub for tests: Hugging Face's API on one port and the host that it redirects downloads to on another, both on
// localhost, with faults that a test turns on. Every request is recorded with its headers and the bytes it was sent.

import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

const SLICE_BYTES = 64 * 1024;

export interface HubFile {
  readonly path: string;
  readonly bytes: Buffer;
  /** Whether the file is stored in LFS: redirected, with a SHA-256; true unless it is set. */
  readonly lfs?: boolean;
}

export interface RecordedRequest {
  readonly host: "hub" | "cdn";
  readonly path: string;
  readonly authorization: string | undefined;
  readonly range: string | undefined;
  sentBytes: number;
}

/** What a test changes about the answer to a download. */
export interface Fault {
  /** Answers with this status instead. */
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** Breaks the connection after this many bytes. */
  readonly cutAfter?: number;
  /** Sends the whole file, whatever range was asked for. */
  readonly ignoresRange?: boolean;
  /** States another total size in Content-Range. */
  readonly statedSize?: number;
  /** Sends this many bytes more than it should, with no Content-Length. */
  readonly extraBytes?: number;
  /** Sends another part of the file than the one asked for. */
  readonly shift?: number;
  /** Sends parts of another content. */
  readonly content?: Buffer;
  /** Never answers. */
  readonly hangs?: boolean;
}

type FaultOf = (request: RecordedRequest, count: number) => Fault | undefined;

/** A hub with one repository. */
export class TestHub implements AsyncDisposable {
  repository = "tester/fable-GGUF";
  readonly requests: RecordedRequest[] = [];
  /** Connections to the host that has the files. */
  cdnConnections = 0;
  /** A former name of the repository, which the hub redirects from. */
  formerRepository: string | undefined;
  commit = "a".repeat(40);
  files: readonly HubFile[] = [];
  /** The token without which everything is 401. */
  requiredToken: string | undefined;
  /** Faults of the API and of the hub's own answers. */
  hubFault: FaultOf = () => undefined;
  /** Faults of the host that has the files. */
  cdnFault: FaultOf = () => undefined;
  /** Called for each download, before it is answered. */
  onDownload: () => void = () => {};
  /** Files per page of a listing, and the host that the next page is said to be on. */
  pageSize = 1000;
  nextPageOrigin: string | undefined;
  /** Pause between slices, to make a download last. */
  sliceMs = 0;
  readonly #hub: Server;
  readonly #cdn: Server;

  private constructor() {
    this.#hub = createServer((request, response) => void this.#answerHub(request, response));
    this.#cdn = createServer((request, response) => void this.#answerCdn(request, response));
    this.#cdn.on("connection", () => this.cdnConnections++);
  }

  static async start(files: readonly HubFile[]): Promise<TestHub> {
    const hub = new TestHub();
    hub.files = files;
    for (const server of [hub.#hub, hub.#cdn])
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return hub;
  }

  get endpoint(): string {
    return `http://127.0.0.1:${(this.#hub.address() as AddressInfo).port}`;
  }

  get cdn(): string {
    return `http://localhost:${(this.#cdn.address() as AddressInfo).port}`;
  }

  /** The requests for bytes of files. */
  get downloads(): readonly RecordedRequest[] {
    return this.requests.filter(({ host, path }) => host === "cdn" || path.includes("/resolve/"));
  }

  get sentBytes(): number {
    return this.downloads.reduce((total, { sentBytes }) => total + sentBytes, 0);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const server of [this.#hub, this.#cdn]) {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    }
  }

  async #answerHub(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { record, fault } = this.#record("hub", request, this.hubFault);
    const url = new URL(request.url ?? "/", this.endpoint);
    if (fault?.hangs === true) return;
    if (fault?.status !== undefined) return void response.writeHead(fault.status, fault.headers).end();
    if (this.requiredToken !== undefined && record.authorization !== `Bearer ${this.requiredToken}`)
      return void response.writeHead(401).end();
    if (this.formerRepository !== undefined && url.pathname.includes(this.formerRepository)) {
      const location = `${url.pathname}${url.search}`.replace(this.formerRepository, this.repository);
      return void response.writeHead(307, { Location: location }).end();
    }
    const base = `/api/models/${this.repository}`;
    if (url.pathname.startsWith(`${base}/revision/`)) return sendJson(response, this.#info());
    if (url.pathname === `${base}/tree/${this.commit}`) return this.#sendTree(url, response);
    const prefix = `/${this.repository}/resolve/${this.commit}/`;
    const file = this.files.find(({ path }) => url.pathname === prefix + encodeURI(path));
    if (file === undefined) return void response.writeHead(404, { "X-Error-Code": "EntryNotFound" }).end();
    this.onDownload();
    if (file.lfs === false) return await this.#sendFile(file, request, response, record, fault);
    response
      .writeHead(302, {
        Location: `${this.cdn}/${encodeURI(file.path)}?signature=secret`,
        "X-Linked-Etag": `"${etagOf(file)}"`,
        "X-Linked-Size": String(file.bytes.length),
        "X-Repo-Commit": this.commit,
      })
      .end();
  }

  async #answerCdn(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { record, fault } = this.#record("cdn", request, this.cdnFault);
    if (fault?.hangs === true) return;
    if (fault?.status !== undefined) return void response.writeHead(fault.status, fault.headers).end();
    const path = decodeURI(new URL(request.url ?? "/", this.cdn).pathname.slice(1));
    const file = this.files.find((candidate) => candidate.path === path);
    if (file === undefined) return void response.writeHead(404).end();
    await this.#sendFile(file, request, response, record, fault);
  }

  #record(host: "hub" | "cdn", request: IncomingMessage, faultOf: FaultOf) {
    const record: RecordedRequest = {
      host,
      path: (request.url ?? "").split("?")[0],
      authorization: request.headers.authorization,
      range: request.headers.range,
      sentBytes: 0,
    };
    const count = this.requests.filter((earlier) => earlier.host === host).length;
    this.requests.push(record);
    return { record, fault: faultOf(record, count) };
  }

  #info(): object {
    return {
      _id: "1",
      id: this.repository,
      sha: this.commit,
      private: false,
      gated: false,
      downloads: 0,
      likes: 0,
      lastModified: "2026-01-01T00:00:00.000Z",
    };
  }

  #sendTree(url: URL, response: ServerResponse): void {
    const from = Number(url.searchParams.get("cursor") ?? 0);
    const page = this.files.slice(from, from + this.pageSize);
    if (from + this.pageSize < this.files.length) {
      const next = new URL(url.pathname + url.search, this.nextPageOrigin ?? this.endpoint);
      next.searchParams.set("cursor", String(from + this.pageSize));
      response.setHeader("Link", `<${next.href}>; rel="next"`);
    }
    sendJson(
      response,
      page.map((file) => ({
        type: "file",
        path: file.path,
        size: file.bytes.length,
        oid: gitHash(file.bytes),
        ...(file.lfs === false ? {} : { lfs: { oid: etagOf(file), size: file.bytes.length, pointerSize: 130 } }),
      })),
    );
  }

  async #sendFile(
    file: HubFile,
    request: IncomingMessage,
    response: ServerResponse,
    record: RecordedRequest,
    fault: Fault = {},
  ): Promise<void> {
    const bytes = fault.content ?? file.bytes;
    const range = fault.ignoresRange === true ? null : /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? "");
    const start = Math.min(bytes.length, Number(range?.[1] ?? 0) + (fault.shift ?? 0));
    const end = Math.min(bytes.length, range === null || range[2] === "" ? bytes.length : Number(range[2]) + 1);
    const size = fault.statedSize ?? bytes.length;
    response.writeHead(range === null ? 200 : 206, {
      ETag: `"${file.lfs === false ? etagOf(file) : `cdn-${etagOf(file).slice(0, 8)}`}"`,
      ...(range === null ? {} : { "Content-Range": `bytes ${start}-${end - 1}/${size}` }),
      ...(fault.extraBytes === undefined ? { "Content-Length": String(end - start) } : {}),
      ...fault.headers,
    });
    const body = Buffer.concat([bytes.subarray(start, end), Buffer.alloc(fault.extraBytes ?? 0, 0x55)]);
    const last = Math.min(body.length, fault.cutAfter ?? Number.POSITIVE_INFINITY);
    for (let at = 0; at < last && !response.destroyed; at += SLICE_BYTES) {
      const slice = body.subarray(at, Math.min(last, at + SLICE_BYTES));
      record.sentBytes += slice.length;
      if (!response.write(slice)) await drained(response);
      if (this.sliceMs > 0) await new Promise((resolve) => setTimeout(resolve, this.sliceMs));
    }
    if (fault.cutAfter === undefined) response.end();
    else response.destroy();
  }
}

export function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

export function etagOf({ bytes, lfs = true }: HubFile): string {
  return lfs ? sha256(bytes) : gitHash(bytes);
}

function gitHash(bytes: Uint8Array): string {
  return createHash("sha1").update(`blob ${bytes.byteLength}\0`).update(bytes).digest("hex");
}

function sendJson(response: ServerResponse, value: unknown): void {
  response.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify(value));
}

function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      response.off("drain", end).off("close", end);
      resolve();
    };
    response.on("drain", end).on("close", end);
  });
}
