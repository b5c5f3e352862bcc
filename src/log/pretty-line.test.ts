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
