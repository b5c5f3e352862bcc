import { openSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { OptionError, SystemError } from "./errors.js";
import { limitReached, systemFailureText, typedError } from "./system-failure.js";

function failed(code: string, path?: string): Error {
  return Object.assign(new Error(`${code}: of the system, open`), {
    code,
    errno: -1,
    syscall: "open",
    ...(path === undefined ? {} : { path }),
  });
}

describe("systemFailureText", () => {
  it.each([
    ["EMFILE", /^too many open files in this process \(EMFILE\); raise the limit \(`ulimit -n 4096`/],
    ["ENFILE", /^too many open files on this machine \(ENFILE\);/],
    ["ELOOP", /^its symbolic links form a loop \(ELOOP\); check where they point/],
    ["ENOSPC", /^the disk is full \(ENOSPC\);/],
    ["EACCES", /^permission denied \(EACCES\);/],
    ["EWHATEVER", /^EWHATEVER: of the system, open$/],
  ])("says what %s means", (code, text) => {
    expect(systemFailureText(failed(code))).toMatch(text);
  });

  it("reads what Node itself throws", () => {
    let thrown: unknown;
    try {
      openSync("/no-such-file", "r");
    } catch (error) {
      thrown = error;
    }
    expect(systemFailureText(thrown)).toBe("no such file (ENOENT); check the path");
    expect(systemFailureText(new Error("of another kind"))).toBe("of another kind");
  });
});

describe("typedError", () => {
  it("gives limits of the machine a code of their own, and files theirs", () => {
    expect(typedError("serve", failed("EMFILE", "/a.js"))).toMatchObject({
      code: "SYSTEM_LIMIT",
      message: expect.stringMatching(/^\[serve\] too many open files/),
      details: { reason: "EMFILE", path: "/a.js" },
    });
    expect(typedError("serve", failed("EIO", "/a"))).toMatchObject({
      code: "FILE_UNREADABLE",
      message: expect.stringMatching(/^\[serve\] \/a: the disk reported an error \(EIO\)/),
    });
    expect(typedError("serve", failed("ENOENT", "/a"))).toMatchObject({ code: "FILE_NOT_FOUND" });
  });

  it("knows a thread that could not be started", () => {
    const error = Object.assign(new Error("Worker initialization failure: EAGAIN"), { code: "ERR_WORKER_INIT_FAILED" });
    expect(limitReached("chat", error)).toBeInstanceOf(SystemError);
    expect(limitReached("chat", error)?.message).toMatch(/cannot start more threads/);
  });

  it("returns every other error unchanged", () => {
    const others = [
      new TypeError("x"),
      new OptionError("OPTION_VALUE", "x"),
      Object.assign(new Error("x"), { code: "ERR_INVALID_ARG_TYPE" }),
      "text",
      undefined,
    ];
    expect(others.map((error) => typedError("serve", error))).toEqual(others);
  });
});
