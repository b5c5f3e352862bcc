import { describe, expect, it } from "vitest";
import { prettyLine } from "./pretty-line.js";

const ESCAPE = "\u001b";

/** Without its colours. */
function plain(text: string): string {
  return text.replaceAll(new RegExp(`${ESCAPE}\\[\\d+m`, "g"), "");
}

describe("prettyLine", () => {
  it("shows time, level, message and fields", () => {
    const time = new Date(2026, 10, 3, 4, 5, 6).getTime();
    const line = prettyLine(
      `${JSON.stringify({ level: 30, time, reqId: "req_1", status: 200, fields: ["a b"], msg: "request" })}\n`,
    );
    expect(plain(line)).toBe(`04:05:06 info  request reqId=req_1 status=200 fields=["a b"]\n`);
  });

  it("shows a request in one line, whatever is unknown of it", () => {
    const request = { level: 30, time: 0, reqId: "req_1", method: "POST", route: "/v1/messages", status: 200 };
    const text = (fields: object): string =>
      prettyLine(JSON.stringify({ ...request, ...fields, msg: "request" })).slice("00:00:00 info  ".length);
    expect(text({ durationMs: 1234 })).toBe("POST /v1/messages 200 in 1.2 s reqId=req_1\n");
    expect(text({ route: undefined, path: "/x", status: 404, durationMs: 3 })).toBe(
      "POST /x 404 in 3 ms reqId=req_1\n",
    );
    expect(text({ method: undefined, route: undefined, status: 400 })).toBe("request reqId=req_1 status=400\n");
  });

  it("colours levels and statuses, only if colours are wanted", () => {
    const coloured = (fields: object): string => prettyLine(JSON.stringify({ time: 0, ...fields }), true);
    expect(coloured({ level: 30, msg: "a" })).toContain(`${ESCAPE}[32minfo ${ESCAPE}[0m a`);
    expect(coloured({ level: 40, msg: "a" })).toContain(`${ESCAPE}[33mwarn ${ESCAPE}[0m a`);
    expect(coloured({ level: 60, msg: "a" })).toContain(`${ESCAPE}[31mfatal${ESCAPE}[0m a`);
    const request = { level: 30, method: "GET", route: "/", durationMs: 1, msg: "request" };
    expect(coloured({ ...request, status: 200 })).toContain(`/ ${ESCAPE}[32m200${ESCAPE}[0m in`);
    expect(coloured({ ...request, status: 503 })).toContain(`/ ${ESCAPE}[31m503${ESCAPE}[0m in`);
    expect(prettyLine(JSON.stringify({ level: 60, time: 0, status: 1, msg: "a" }))).not.toContain(ESCAPE);
  });

  it("shows an error's stack below its line", () => {
    const line = prettyLine(
      JSON.stringify({
        level: 50,
        time: 0,
        err: { type: "Error", message: "no", stack: "Error: no\n    at here" },
        msg: "failed",
      }),
    );
    expect(plain(line)).toMatch(/ error failed\n {4}Error: no\n {8}at here\n$/);
  });

  it("lets nothing that came from outside control the terminal", () => {
    const hostile = `a${ESCAPE}[2J\u009bb\n\u202e`;
    const line = prettyLine(
      JSON.stringify({ level: 40, time: 0, path: hostile, msg: hostile, err: { stack: `x${ESCAPE}]0;y` } }),
    );
    expect(plain(line)).not.toMatch(/[^\P{Cc}\n]|\u202e/u);
    expect(line.split("\n")).toHaveLength(3);
  });

  it("passes on what is no line of the log", () => {
    expect(prettyLine("rocmforge: stopping\n")).toBe("rocmforge: stopping\n");
    expect(prettyLine("{ not JSON\n")).toBe("{ not JSON\n");
  });
});
