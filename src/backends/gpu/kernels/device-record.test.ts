import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { TemporaryFolder } from "../../../../test/support/temporary-folder.js";
import { DeviceRecord, type RecordIdentity } from "./device-record.js";

const IDENTITY: RecordIdentity = {
  kind: "hip",
  device: { name: "a card", architecture: "gfx1100", multiprocessors: 48, waveSize: 32 },
  driver: "HIP 6.2",
  compiler: "hiprtc 9.0 HIP 6.2 (comgr 1) libhiprtc.so 10 20",
};
const CHOICE = { parameters: { rows: 2, split: 1 }, usualUs: 12.5, chosenUs: 10.25 };
const NOTHING = { chosen: {}, modules: {} };

function sourcesIn(folder: TemporaryFolder): string {
  const path = folder.file("sources");
  mkdirSync(path);
  writeFileSync(join(path, "a.hip"), "kernel");
  return path;
}

describe("DeviceRecord", () => {
  it("gives back what was added, by another record of the same card", async () => {
    using folder = new TemporaryFolder();
    const record = new DeviceRecord(IDENTITY, folder.file("new/kernels"));
    expect(record.read()).toEqual(NOTHING);
    expect(await record.add({ chosen: { "gemv a": CHOICE } })).toBe(true);
    expect(await record.add({ modules: { "matmul/gemv ROWS=2": "passed" } })).toBe(true);
    expect(new DeviceRecord(IDENTITY, folder.file("new/kernels")).read()).toEqual({
      chosen: { "gemv a": CHOICE },
      modules: { "matmul/gemv ROWS=2": "passed" },
    });
    expect(readdirSync(folder.file("new/kernels"))).toHaveLength(1);
  });

  it("hashes no sources to find out that a folder has no records, and gives none of another card", async () => {
    using folder = new TemporaryFolder();
    const missing = folder.file("no sources");
    expect(new DeviceRecord(IDENTITY, folder.path, missing).read()).toEqual(NOTHING);
    await new DeviceRecord(IDENTITY, folder.path).add({ chosen: { "gemv a": CHOICE } });
    expect(() => new DeviceRecord(IDENTITY, folder.path, missing).read()).toThrow("no sources");
    expect(new DeviceRecord({ ...IDENTITY, kind: "cuda" }, folder.path).read()).toEqual(NOTHING);
  });

  it("keeps what several writers add at the same time, the newest of each name", async () => {
    using folder = new TemporaryFolder();
    const names = Array.from({ length: 6 }, (_, index) => `gemv ${index}`);
    await Promise.all(names.map((name) => new DeviceRecord(IDENTITY, folder.path).add({ chosen: { [name]: CHOICE } })));
    const record = new DeviceRecord(IDENTITY, folder.path);
    expect(Object.keys(record.read().chosen).toSorted()).toEqual(names);
    await record.add({ chosen: { "gemv 0": { parameters: { rows: 4 } } }, modules: { m: "failed" } });
    await record.add({ modules: { m: "passed" } });
    expect(record.read().chosen["gemv 0"]).toEqual({ parameters: { rows: 4 } });
    expect(record.read().modules).toEqual({ m: "passed" });
  });

  it("has a file of its own for another card, driver, compiler, source, or poor parameters", () => {
    using folder = new TemporaryFolder();
    const path = (changes: Partial<RecordIdentity>, sources?: string): string =>
      new DeviceRecord({ ...IDENTITY, ...changes }, folder.path, sources).path;
    const paths = [
      path({}),
      path({ kind: "cuda" }),
      path({ device: { ...IDENTITY.device, name: "another card" } }),
      path({ device: { ...IDENTITY.device, architecture: "gfx1101" } }),
      path({ device: { ...IDENTITY.device, waveSize: 64 } }),
      path({ device: { ...IDENTITY.device, multiprocessors: 96 } }),
      path({ driver: "HIP 6.3" }),
      path({ compiler: "hiprtc 9.0 HIP 6.2 (comgr 2) libhiprtc.so 10 20" }),
      path({ poor: true }),
      path({}, sourcesIn(folder)),
    ];
    expect(new Set(paths).size).toBe(paths.length);
    expect(path({})).toBe(paths[0]);
  });

  it.each([
    ["no JSON", "{"],
    ["an array", "[]"],
    ["a section that is missing", '{"chosen":{}}'],
    ["an unknown section", '{"chosen":{},"modules":{},"more":{}}'],
    ["a section that is no object", '{"chosen":[],"modules":{}}'],
    ["an unknown verdict", '{"chosen":{},"modules":{"m":"maybe"}}'],
    ["a choice without parameters", '{"chosen":{"gemv a":{}},"modules":{}}'],
    ["no parameter at all", '{"chosen":{"gemv a":{"parameters":{}}},"modules":{}}'],
    ["a parameter that is a text", '{"chosen":{"gemv a":{"parameters":{"rows":"2"}}},"modules":{}}'],
    ["a fraction", '{"chosen":{"gemv a":{"parameters":{"rows":1.5}}},"modules":{}}'],
    ["a huge parameter", '{"chosen":{"gemv a":{"parameters":{"rows":1e9}}},"modules":{}}'],
    ["a strange parameter name", '{"chosen":{"gemv a":{"parameters":{"__proto__x":2}}},"modules":{}}'],
    ["a time below zero", '{"chosen":{"gemv a":{"parameters":{"rows":2},"usualUs":-1}},"modules":{}}'],
    ["a name with a line break", String.raw`{"chosen":{},"modules":{"a\nb":"passed"}}`],
    ["too many entries", JSON.stringify({ chosen: {}, modules: manyVerdicts(8193) })],
    ["too many bytes", `{"chosen":{},"modules":{}}${" ".repeat(4 << 20)}`],
  ])("ignores a record with %s, and replaces it at the next write", async (_, text) => {
    using folder = new TemporaryFolder();
    const record = new DeviceRecord(IDENTITY, folder.path);
    writeFileSync(record.path, text);
    expect(record.read()).toEqual(NOTHING);
    expect(await record.add({ modules: { m: "passed" } })).toBe(true);
    expect(record.read()).toEqual({ chosen: {}, modules: { m: "passed" } });
  });

  it("drops the oldest entries instead of growing without a limit", async () => {
    using folder = new TemporaryFolder();
    const record = new DeviceRecord(IDENTITY, folder.path);
    await record.add({ modules: manyVerdicts(8192) });
    await record.add({ modules: { last: "failed" } });
    const { modules } = record.read();
    expect(Object.keys(modules)).toHaveLength(8192);
    expect(modules["last"]).toBe("failed");
    expect(modules["module 0"]).toBeUndefined();
  });

  it("loses only the results if the folder cannot be made", async () => {
    using folder = new TemporaryFolder();
    writeFileSync(folder.file("file"), "");
    const record = new DeviceRecord(IDENTITY, folder.file("file/kernels"));
    expect(await record.add({ modules: { m: "passed" } })).toBe(false);
    expect(record.read()).toEqual(NOTHING);
    expect(readFileSync(folder.file("file"), "utf8")).toBe("");
  });
});

function manyVerdicts(count: number): Record<string, "passed"> {
  return Object.fromEntries(Array.from({ length: count }, (_, index) => [`module ${index}`, "passed"] as const));
}
