// GET / and the files of the chat page: who gets them, how they are compressed and kept, and what the page may do.

import { describe, expect, it } from "vitest";
import { startServer } from "../../src/server/testing/test-server.js";

const BROWSER = { accept: "text/html,application/xhtml+xml,*/*;q=0.8" };

async function scriptOf(server: Awaited<ReturnType<typeof startServer>>): Promise<string> {
  const { text } = await server.get("/", BROWSER);
  return /src="(?<path>\/page\/[\w.-]+\.js)"/.exec(text)?.groups?.["path"] ?? "";
}

describe("the chat page", () => {
  it("is what browsers get, with a policy that allows its own files alone", async () => {
    await using server = await startServer();
    const { status, headers, text } = await server.get("/", BROWSER);
    expect(status).toBe(200);
    expect(headers.get("content-type")).toBe("text/html; charset=utf-8");
    expect(headers.get("cache-control")).toBe("no-cache");
    const policy = headers.get("content-security-policy") ?? "";
    expect(policy).toContain("default-src 'none'");
    expect(policy).not.toMatch(/unsafe|\*|https?:/);
    // Nothing inline, nothing from elsewhere.
    expect(text).not.toMatch(/<style|style=|<script>|https?:/);
    expect(text).toContain('<script type="module"');
  });

  it("has files that are compressed in advance and kept forever", async () => {
    await using server = await startServer();
    const path = await scriptOf(server);
    const sizes: number[] = [];
    for (const encoding of ["identity", "gzip", "br"]) {
      const { status, headers, text } = await server.get(path, { "accept-encoding": encoding });
      expect(status).toBe(200);
      expect(headers.get("content-type")).toBe("text/javascript; charset=utf-8");
      expect(headers.get("cache-control")).toBe("public, max-age=31536000, immutable");
      expect(headers.get("content-encoding")).toBe(encoding === "identity" ? null : encoding);
      expect(text.length).toBeGreaterThan(10_000);
      sizes.push(Number(headers.get("content-length")));
    }
    const [plain, gzip, brotli] = sizes;
    expect(gzip).toBeLessThan(plain / 2);
    expect(brotli).toBeLessThan(gzip);
    // The first visit on a slow network.
    expect(brotli).toBeLessThan(60_000);
  });

  it("is not sent again if the browser has it", async () => {
    await using server = await startServer();
    const etag = (await server.get("/", BROWSER)).headers.get("etag") ?? "";
    const { status, text } = await server.get("/", { ...BROWSER, "if-none-match": etag });
    expect([status, text]).toEqual([304, ""]);
  });

  it("needs no key, and asks for one itself", async () => {
    await using server = await startServer({ apiKeys: ["a-secret-key"] });
    expect((await server.get("/", BROWSER)).status).toBe(200);
    expect((await server.get(await scriptOf(server))).status).toBe(200);
    expect((await server.get("/v1/models")).status).toBe(401);
  });

  it("rejects names that are no files, and paths out of its folder", async () => {
    await using server = await startServer();
    for (const path of ["/page/other.js", "/page/index.html", "/page/..%2Findex.js", "/page/..%2f..%2fpackage.json"]) {
      const { status, json } = await server.get(path);
      expect([status, json.error.code]).toEqual([404, "not_found"]);
    }
  });

  it("can be turned off", async () => {
    await using server = await startServer({ page: false });
    expect((await server.get("/", BROWSER)).status).toBe(404);
    expect((await server.get("/openapi.json")).json.paths).not.toHaveProperty("/page/{id}");
  });

  it("is not for clients that accept no HTML", async () => {
    await using server = await startServer();
    expect((await server.get("/")).text).toBe("Ollama is running");
  });
});
