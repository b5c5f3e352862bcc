// Every TypeScript and JavaScript block of the README and of docs/ is a program that compiles and runs, with the installed
// package and the embedded model; those with the AI SDK run in document-programs.full.test.ts.

import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { DOCUMENT_PROGRAMS } from "../support/document-blocks.js";
import { DocumentProject, usesAiSdk } from "./document-project.js";
import { ROOT } from "./packed-package.js";

const programs = DOCUMENT_PROGRAMS.filter((program) => !usesAiSdk(program));

/** What programs print, if there is more to say than that they print something. */
const EXPECTED: Readonly<Record<string, RegExp>> = {
  "docs/guide/library.md":
    /^model 512 4096\n[^]*\n(?:stop|length): \d+ tokens, \d+ tokens\/s\n[^]*\n\d+ dimensions, similarity [\d.]+\n\d+ Once upon a time\nCONTEXT_OVERFLOW\n\[/,
  "docs/guide/serving.md": /\S/,
  "docs/guide/structured-output.md": /^.{0,20} \d\d? (?:human|fox|raven)\n\d{4}-[01]\d-[0-3]\d (?:yes|no)\n$/s,
  "docs/guide/tools.md": /^weather \{ town: '(?:Oslo|Rome)' \}\n/,
};

describe("programs of the README and of docs/", () => {
  let project: DocumentProject;
  beforeAll(async () => {
    const packages = Object.fromEntries(["openai"].map((name) => [name, join(ROOT, "node_modules", name)]));
    project = await DocumentProject.create(programs, packages);
  }, 120_000);
  afterAll(() => project[Symbol.asyncDispose]());

  it("are of every kind", () => {
    const pages = new Set(programs.map(({ page }) => page));
    for (const page of ["README.md", "docs/models.md", "docs/control-tokens.md", "docs/guide/getting-started.md"])
      expect([...pages]).toContain(page);
    expect(programs.some(({ language }) => language === "js")).toBe(true);
    expect(DOCUMENT_PROGRAMS.length).toBeGreaterThan(programs.length);
  });

  it.each(programs)("$page:$line runs as printed", async (program) => {
    const { status, stdout, stderr } = await project.run(program);
    expect({ status, stderr: status === 0 ? "" : stderr }).toEqual({ status: 0, stderr: "" });
    // A program whose calls print nothing is checked by its end alone.
    if (/console\.log|process\.stdout/.test(program.text)) expect(stdout).toMatch(EXPECTED[program.page] ?? /\S/);
  });
});
