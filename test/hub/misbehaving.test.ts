// A hub and a file host that break off, lie, refuse and redirect: downloads end in the right file or in a clear error,
// never in a wrong file, an endless loop or a leaked token.

import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { pullNamedModel } from "../../src/hub/resolve-model.js";
import type { PullModelOptions } from "../../src/hub/pull-types.js";
import { HubEnvironment, MODEL_BYTES, paddedModel } from "./hub-environment.js";
import { type HubFile, sha256, TestHub } from "./test-hub.js";

const FILE: HubFile = { path: "fable-Q4_K_M.gguf", bytes: paddedModel(3_000_000) };
const CHUNK_BYTES = 512 * 1024;
const POLICY = { tries: 4, firstPauseMs: 5, longestPauseMs: 2000, silenceMs: 10_000 };

let hub: TestHub;
let environment: HubEnvironment;

beforeEach(async () => {
  hub = await TestHub.start([FILE]);
  environment = new HubEnvironment(hub);
});

afterEach(async () => {
  environment[Symbol.dispose]();
  await hub[Symbol.asyncDispose]();
});

async function pull(options: PullModelOptions = {}, policy = POLICY): Promise<Buffer> {
  const tuning = { policy, chunkBytes: CHUNK_BYTES };
  const { path } = await pullNamedModel(`hf:${hub.repository}`, { backend: "reference", ...options }, tuning);
  return readFileSync(path);
}

function blobs(): readonly string[] {
  const folder = join(environment.repositoryFolder(hub), "blobs");
  return existsSync(folder) ? readdirSync(folder) : [];
}

function partialBytes(): number {
  const name = blobs().find((blob) => blob.endsWith(".incomplete"));
  return name === undefined ? 0 : statSync(join(environment.repositoryFolder(hub), "blobs", name)).size;
}

describe("connections that break", () => {
  it("resumes after every cut, and fetches no byte twice beyond what was cut", async () => {
    hub.cdnFault = (_, count) => (count % 2 === 0 ? { cutAfter: 100_000 + 1000 * count } : undefined);
    expect(sha256(await pull())).toBe(sha256(FILE.bytes));
    const ranges = hub.downloads.filter(({ host }) => host === "cdn").length;
    expect(ranges).toBeGreaterThan(5);
    expect(hub.sentBytes).toBeLessThanOrEqual(FILE.bytes.length + ranges * CHUNK_BYTES);
  });

  it("rejects a host that never delivers, after a few tries, and resumes later", async () => {
    hub.cdnFault = ({ range }) => (range?.startsWith("bytes=0-") === true ? undefined : { cutAfter: 0 });
    await expect(pull()).rejects.toMatchObject({ code: "HUB_UNAVAILABLE" });
    expect(hub.requests.length).toBeLessThan(20);
    expect(partialBytes()).toBeGreaterThan(0);
    expect(blobs().some((name) => name.includes(".lock-"))).toBe(false);
    const [kept, sent] = [partialBytes(), hub.sentBytes];
    hub.cdnFault = () => undefined;
    expect(sha256(await pull())).toBe(sha256(FILE.bytes));
    expect(hub.sentBytes - sent).toBe(FILE.bytes.length - kept);
  });

  it("rejects a host that is silent", async () => {
    hub.cdnFault = () => ({ hangs: true });
    const impatient = { ...POLICY, silenceMs: 400 };
    await expect(pull({}, impatient)).rejects.toMatchObject({ code: "HUB_UNAVAILABLE" });
  });

  it("rejects a hub that cannot be reached", async () => {
    process.env["HF_ENDPOINT"] = "http://127.0.0.1:9";
    const error: unknown = await pull().catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code: "HUB_UNAVAILABLE" });
    expect(String(error)).toContain("resumes");
  });

  it("keeps a partial file when it is aborted", async () => {
    const controller = new AbortController();
    const reason = new Error("enough");
    hub.sliceMs = 20;
    const aborted = pull({
      signal: controller.signal,
      onProgress: ({ phase, doneBytes }) => {
        if (phase === "downloading" && doneBytes > 1_000_000) controller.abort(reason);
      },
    });
    await expect(aborted).rejects.toBe(reason);
    expect(partialBytes()).toBeGreaterThan(1_000_000);
    hub.sliceMs = 0;
    expect(sha256(await pull())).toBe(sha256(FILE.bytes));
    expect(blobs()).toEqual([sha256(FILE.bytes)]);
  });
});

it("uses one connection for many ranges", async () => {
  expect(sha256(await pull())).toBe(sha256(FILE.bytes));
  expect(hub.downloads.filter(({ host }) => host === "cdn").length).toBeGreaterThan(5);
  expect(hub.cdnConnections).toBeLessThanOrEqual(2);
});

it("follows a repository to its new name", async () => {
  hub.formerRepository = "tester/old-name";
  const { path } = await pullNamedModel("hf:tester/old-name", { backend: "reference" }, { policy: POLICY });
  expect(sha256(readFileSync(path))).toBe(sha256(FILE.bytes));
});

describe("statuses", () => {
  it("waits as long as Retry-After says", async () => {
    let refused = 0;
    hub.cdnFault = () => (refused++ < 2 ? { status: 429, headers: { "Retry-After": "1" } } : undefined);
    const startMs = performance.now();
    expect(sha256(await pull())).toBe(sha256(FILE.bytes));
    expect(performance.now() - startMs).toBeGreaterThan(1900);
  });

  it("rejects a Retry-After that is too long, and says when to try again", async () => {
    hub.hubFault = () => ({ status: 429, headers: { "Retry-After": "3600" } });
    await expect(pull()).rejects.toMatchObject({ code: "HUB_RATE_LIMIT", details: { retryAfterSeconds: 3600 } });
    expect(hub.requests).toHaveLength(1);
  });

  it("tries again after 5xx", async () => {
    hub.hubFault = (_, count) => (count < 3 ? { status: 503 } : undefined);
    hub.cdnFault = (_, count) => (count < 2 ? { status: 502 } : undefined);
    expect(sha256(await pull())).toBe(sha256(FILE.bytes));
  });

  it.each([
    [401, "HUB_ACCESS"],
    [403, "HUB_ACCESS"],
    [404, "HUB_NOT_FOUND"],
    [418, "HUB_RESPONSE"],
  ] as const)("rejects %i of the hub at once", async (status, code) => {
    hub.hubFault = () => ({ status });
    await expect(pull()).rejects.toMatchObject({ code, details: { status } });
    expect(hub.requests).toHaveLength(1);
  });

  it("asks the hub again when a signed address has expired", async () => {
    hub.cdnFault = (_, count) => (count === 2 || count === 4 ? { status: 403 } : undefined);
    expect(sha256(await pull())).toBe(sha256(FILE.bytes));
    expect(hub.requests.filter(({ host, path }) => host === "hub" && path.includes("/resolve/")).length).toBe(4);
  });
});

describe("lies", () => {
  it("continues through a host that ignores ranges", async () => {
    hub.cdnFault = () => ({ ignoresRange: true });
    expect(sha256(await pull())).toBe(sha256(FILE.bytes));
  });

  it("resumes at a host that ignores ranges and breaks off", async () => {
    hub.cdnFault = (_, count) => ({
      ignoresRange: true,
      ...(count < 3 ? { cutAfter: 900_000 + 400_000 * count } : {}),
    });
    expect(sha256(await pull())).toBe(sha256(FILE.bytes));
  });

  it("stores no byte more than the hub stated", async () => {
    hub.cdnFault = () => ({ extraBytes: 5_000_000 });
    expect(sha256(await pull())).toBe(sha256(FILE.bytes));
  });

  it.each([
    ["another size", { statedSize: 99 }],
    ["another position", { shift: 7 }],
    ["a compressed body", { headers: { "Content-Encoding": "gzip" } }],
  ])("rejects %s", async (_, fault) => {
    hub.cdnFault = () => fault;
    await expect(pull()).rejects.toMatchObject({ code: "HUB_RESPONSE" });
    expect(blobs().filter((name) => !name.endsWith(".incomplete"))).toEqual([]);
  });

  it("rejects content with another checksum, and starts over", async () => {
    const damaged = Buffer.from(FILE.bytes);
    damaged[2_900_000] ^= 1;
    hub.cdnFault = () => ({ content: damaged });
    await expect(pull()).rejects.toMatchObject({ code: "HUB_CHECKSUM" });
    expect(blobs()).toEqual([]);
    hub.cdnFault = () => undefined;
    expect(sha256(await pull())).toBe(sha256(FILE.bytes));
  });

  it("starts over with a file that changes during the download", async () => {
    const changed = paddedModel(2_500_000);
    hub.cdnFault = (_, count) => {
      if (count !== 3) return undefined;
      hub.files = [{ path: FILE.path, bytes: changed }];
      hub.commit = "c".repeat(40);
      return { status: 403 };
    };
    expect(sha256(await pull())).toBe(sha256(changed));
  });

  it("rejects a file that changes again and again", async () => {
    hub.onDownload = () => (hub.files = [{ path: FILE.path, bytes: paddedModel(2_500_000) }]);
    await expect(pull()).rejects.toMatchObject({ code: "HUB_RESPONSE" });
    expect(hub.requests.length).toBeLessThan(20);
  });

  it("ignores names that would lead outside the cache", async () => {
    hub.files = [
      { path: "../../../../outside-Q4_K_M.gguf", bytes: MODEL_BYTES },
      { path: "a/../../b-Q4_K_M.gguf", bytes: MODEL_BYTES },
      { path: "C:\\windows-Q4_K_M.gguf", bytes: MODEL_BYTES },
      { path: "/etc/passwd-Q4_K_M.gguf", bytes: MODEL_BYTES },
    ];
    await expect(pull()).rejects.toMatchObject({ code: "HUB_NOT_FOUND" });
    hub.commit = "../../x";
    await expect(pull()).rejects.toMatchObject({ code: "HUB_RESPONSE" });
    expect(existsSync(environment.folder.file("hf"))).toBe(false);
  });

  it("rejects a size that does not fit the disk before it downloads", async () => {
    const bytes = Buffer.from(FILE.bytes);
    Object.defineProperty(bytes, "length", { value: 2 ** 43 });
    hub.files = [{ path: FILE.path, bytes }];
    await expect(pull()).rejects.toMatchObject({ code: "HUB_DISK_SPACE" });
    expect(hub.downloads).toEqual([]);
  });

  it("rejects answers of the API that are no listing", async () => {
    hub.hubFault = (_, count) => (count === 0 ? { status: 200, headers: { "Content-Type": "text/html" } } : undefined);
    await expect(pull()).rejects.toMatchObject({ code: "HUB_RESPONSE" });
  });
});

describe("the token", () => {
  beforeEach(() => {
    hub.requiredToken = "hf_secret";
    process.env["HF_TOKEN"] = "hf_secret";
  });

  it("goes to the hub and not to the host that it redirects to", async () => {
    expect(sha256(await pull())).toBe(sha256(FILE.bytes));
    const [toHub, toOthers] = ["hub", "cdn"].map((host) => hub.requests.filter((request) => request.host === host));
    expect(toHub.length).toBeGreaterThan(2);
    expect(toHub.every(({ authorization }) => authorization === "Bearer hf_secret")).toBe(true);
    expect(toOthers.length).toBeGreaterThan(2);
    expect(toOthers.filter(({ authorization }) => authorization !== undefined)).toEqual([]);
  });

  it("does not follow a listing to another host", async () => {
    const seen: unknown[] = [];
    const thief = createServer((request, response) => {
      seen.push(request.headers);
      response.end("[]");
    });
    await new Promise<void>((resolve) => thief.listen(0, "127.0.0.1", resolve));
    hub.pageSize = 1;
    hub.files = [FILE, { path: "other.gguf", bytes: MODEL_BYTES }];
    hub.nextPageOrigin = `http://127.0.0.1:${(thief.address() as AddressInfo).port}`;
    await expect(pull()).rejects.toMatchObject({ code: "HUB_RESPONSE" });
    thief.close();
    expect(seen).toEqual([]);
    hub.nextPageOrigin = undefined;
    expect(sha256(await pull())).toBe(sha256(FILE.bytes));
  });

  it("is asked for, and never printed", async () => {
    delete process.env["HF_TOKEN"];
    const without: unknown = await pull().catch((error: unknown) => error);
    expect(without).toMatchObject({ code: "HUB_ACCESS" });
    expect(String(without)).toContain("HF_TOKEN");
    process.env["HF_TOKEN"] = "hf_wrong";
    const wrong: unknown = await pull().catch((error: unknown) => error);
    expect(wrong).toMatchObject({ code: "HUB_ACCESS" });
    expect(JSON.stringify(wrong) + String(wrong)).not.toContain("hf_wrong");
  });
});
