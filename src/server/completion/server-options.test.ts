import { expect, test } from "vitest";
import { resolveServerOptions, type ServerOptions } from "./server-options.js";
import { FakeModelPool } from "../testing/fake-model.js";
import { FakeChat, FakeGrammar } from "../testing/fake-services.js";

const parts = { pool: new FakeModelPool(), chat: new FakeChat(), grammar: new FakeGrammar() };
const resolve = (options: object) => resolveServerOptions({ ...parts, ...options } as ServerOptions);

test("by default this machine alone, no page, no key", () => {
  expect(resolve({})).toMatchObject({ host: "127.0.0.1", port: 8080, strict: false, logPrompts: false });
  expect(resolve({}).access).toEqual({ apiKeys: [], corsOrigins: [], allowedHosts: ["localhost", "127.0.0.1", "::1"] });
  expect(resolve({ host: "0.0.0.0" }).access.allowedHosts).toEqual([]);
  expect(resolve({ host: "0.0.0.0", allowedHosts: ["Box.Local"] }).access.allowedHosts).toEqual(["box.local"]);
});

test("logs nothing unless there is a level or a destination", () => {
  const logDestination = { write: () => {} };
  const levels = [{}, { logDestination }, { logLevel: "warn" }, { logDestination, logLevel: "error" }].map(
    (options) => resolve(options).logLevel,
  );
  expect(levels).toEqual(["silent", "info", "warn", "error"]);
});

test("defaults of sampling are the sampler's, with the owner's on top", () => {
  expect(resolve({ sampling: { topK: 5 } }).sampling).toEqual({ topK: 5 });
});

test.each([
  [{ hots: "a" }, /did you mean "host"/],
  [{ port: 70_000 }, /port/],
  [{ port: -1 }, /port/],
  [{ host: "" }, /host/],
  [{ logLevel: "loud" }, /logLevel/],
  [{ apiKeys: "key" }, /apiKeys/],
  [{ apiKeys: ["short"] }, /apiKeys/],
  [{ apiKeys: ["with a space in it"] }, /apiKeys/],
  [{ corsOrigins: ["example.com"] }, /corsOrigins/],
  [{ corsOrigins: ["https://example.com/path"] }, /corsOrigins/],
  [{ strict: "yes" }, /strict/],
  [{ sampling: { temperature: -1 } }, /temperature/],
  [{ limits: { bodyBites: 1 } }, /did you mean "bodyBytes"/],
  [{ limits: { choices: 0 } }, /choices/],
])("rejects %j", (options, message) => {
  expect(() => resolve(options)).toThrow(message);
});

test("a key that is refused is not shown", () => {
  expect(() => resolve({ apiKeys: ["s3cret!"] })).not.toThrow(/s3cret/);
});
