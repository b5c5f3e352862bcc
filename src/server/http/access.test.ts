import { expect, test } from "vitest";
import { AccessControl, isLoopback, LOOPBACK_HOSTS } from "./access.js";

const control = (rules: Partial<ConstructorParameters<typeof AccessControl>[0]>) =>
  new AccessControl({ apiKeys: [], corsOrigins: [], allowedHosts: [], ...rules });

test("any of the keys opens, in either header", () => {
  const access = control({ apiKeys: ["first-key", "second-key"] });
  for (const headers of [
    { authorization: "Bearer first-key" },
    { authorization: "bearer second-key" },
    { "x-api-key": "second-key" },
    { authorization: "Bearer wrong", "x-api-key": "first-key" },
  ]) {
    expect(() => access.checkKey(headers)).not.toThrow();
  }
});

test("rejects no key, a wrong one and one in the wrong form, without saying it", () => {
  const access = control({ apiKeys: ["first-key"] });
  for (const headers of [
    {},
    { authorization: "first-key" },
    { authorization: "Basic first-key" },
    { "x-api-key": "first-ke" },
    { "x-api-key": "" },
  ]) {
    expect(() => access.checkKey(headers)).toThrow(expect.objectContaining({ status: 401, code: "invalid_api_key" }));
    expect(() => access.checkKey(headers)).not.toThrow(/first/);
  }
});

test("without keys everybody may", () => {
  expect(() => control({}).checkKey({})).not.toThrow();
});

test("answers to its own names only", () => {
  const access = control({ allowedHosts: [...LOOPBACK_HOSTS] });
  for (const host of [
    "localhost",
    "localhost:8080",
    "LOCALHOST:1",
    "127.0.0.1:80",
    "127.0.0.2",
    "[::1]:8080",
    "[::1]",
  ]) {
    expect(() => access.checkHost({ host })).not.toThrow();
  }
  for (const host of [
    "evil.example",
    "evil.example:8080",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "",
    "a b",
  ]) {
    expect(() => access.checkHost({ host })).toThrow(expect.objectContaining({ status: 403 }));
  }
  // No page sends a request without a name.
  expect(() => access.checkHost({})).not.toThrow();
  expect(() => control({}).checkHost({ host: "any.example" })).not.toThrow();
});

test("web pages get no CORS headers unless they are listed", () => {
  expect(control({}).corsHeaders({ origin: "https://a.example" })).toBeUndefined();
  const access = control({ corsOrigins: ["https://a.example"] });
  expect(access.corsHeaders({ origin: "https://a.example" })).toMatchObject({
    "access-control-allow-origin": "https://a.example",
    vary: "Origin",
  });
  expect(access.corsHeaders({ origin: "https://b.example" })).toBeUndefined();
  expect(access.corsHeaders({})).toBeUndefined();
  expect(control({ corsOrigins: ["*"] }).corsHeaders({ origin: "null" })).toMatchObject({
    "access-control-allow-origin": "*",
  });
});

test("tells addresses of this machine from others", () => {
  expect(["127.0.0.1", "127.9.9.9", "::1", "localhost"].map(isLoopback)).toEqual([true, true, true, true]);
  expect(["0.0.0.0", "::", "192.168.0.1", "127.0.0.1.example"].map(isLoopback)).toEqual([false, false, false, false]);
});
