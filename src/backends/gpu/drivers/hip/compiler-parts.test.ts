// What hiprtc compiles with is part of the compiler's identity.

import { symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { afterAll, describe, expect, it } from "vitest";
import { TemporaryFolder } from "../../../../../test/support/temporary-folder.js";
import { compilerParts } from "./compiler-parts.js";

const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());

describe("a compiler's parts", () => {
  it("are told by name, size and time, each file once", () => {
    const system = compilerParts([], {});
    writeFileSync(folder.file("libamd_comgr.so.3.0.0"), "comgr");
    symlinkSync("libamd_comgr.so.3.0.0", folder.file("libamd_comgr.so.3"));
    writeFileSync(folder.file("libamd_comgr.txt"), "none");
    const first = compilerParts([folder.path], {});
    expect(first).not.toBe(system);
    expect(first.match(/libamd_comgr\.so\.3\.0\.0 5 /g)).toHaveLength(1);
    expect(first).not.toContain("txt");
    expect(compilerParts([folder.path, folder.path], {})).toBe(first);
    expect(compilerParts([], { LD_LIBRARY_PATH: `:${folder.path}` })).toBe(first);
    // An update that changes not even the size.
    utimesSync(folder.file("libamd_comgr.so.3.0.0"), new Date(0), new Date(1000));
    const updated = compilerParts([folder.path], {});
    expect(updated).not.toBe(first);
    writeFileSync(folder.file("libhiprtc-builtins.so.7"), "headers");
    expect(compilerParts([folder.path], {})).not.toBe(updated);
  });
});
