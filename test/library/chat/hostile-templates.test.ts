// No template, however hostile, crashes the process or breaks the next rendering: it ends with CHAT_LIMIT or
// CHAT_TEMPLATE.

import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import { TemplateRunner } from "../../../src/chat/template/template-runner.js";
import { ChatError } from "../../../src/errors.js";
import { HARMLESS_TEMPLATES, HOSTILE_TEMPLATES } from "./hostile-templates.js";
import { FULL_RUN } from "../../support/full-run.js";

const runner = new TemplateRunner({ deadlineMs: 400, threads: 1 });
afterAll(() => runner[Symbol.asyncDispose]());

const variables = { messages: [{ role: "user", content: "hello" }] };
/** Many of the random templates run until the deadline. */
const RANDOM_TEMPLATES = FULL_RUN ? 120 : 25;
let renderings = 0;

async function outcomeOf(template: string): Promise<string> {
  try {
    await runner.render(template, variables);
    return "text";
  } catch (error) {
    return error instanceof ChatError ? error.code : `${error}`;
  }
}

async function expectToWork(): Promise<void> {
  // Another template each time, because equal ones are cached.
  const template = `{{ messages[0].content }} ${renderings++}`;
  // On a busy machine even this may be late, and not only once.
  await expect
    .poll(() => runner.render(template, variables).catch((error: unknown) => error))
    .toMatchObject({ text: `hello ${renderings - 1}` });
}

describe("a hostile template", () => {
  for (const [name, template] of Object.entries(HOSTILE_TEMPLATES)) {
    test(`${name}: ends, and the next rendering works`, async () => {
      expect(await outcomeOf(template)).toMatch(/^CHAT_(LIMIT|TEMPLATE)$/);
      await expectToWork();
    });
  }

  for (const [name, template] of Object.entries(HARMLESS_TEMPLATES)) {
    test(`${name}: is only large, and is rendered`, async () => {
      const slow = new TemplateRunner({ deadlineMs: 30_000, threads: 1 });
      await slow.render(template, variables);
      await slow[Symbol.asyncDispose]();
    });
  }

  // Steps that make much out of little, in any order.
  const steps = fc.constantFrom(
    "{% set s = s + s %}",
    "{% set s = s ~ s ~ s ~ s %}",
    '{% set s = s | replace("a", s) %}',
    '{% set s = s.replace("", "ab") %}',
    "{% set s = s | upper %}",
    "{% set s = s[1:] + s[::-1] %}",
    "{% set s = s | indent(50) %}",
    "{% set s = l | tojson %}",
    "{% set s = l | join(s[:50]) %}",
    "{% set s = l | tojson(indent=9) %}",
    "{% set l = l + l %}",
    "{% set l = [l, l, l] %}",
    "{% set l = l + [s, s] %}",
    '{% set l = s.split("a") %}',
    "{% set l = range(200000) | list %}",
    "{% set l = (l | unique) + l %}",
    "{% for i in range(1000) %}{{ s }}{% endfor %}",
    "{% for i in l %}{% set s = s + s %}{{ i }}{% endfor %}",
    "{{ m(s, l) }}",
    "{% set n.s = n.s + s %}{% set n.l = n.l + [s | title, l] %}",
    "{% for i in range(500) %}{% set n.l = n.l + [s | lower] %}{% endfor %}",
  );
  const head =
    '{% set s = "a\\nb" %}{% set l = [1, "a"] %}{% set n = namespace(s="", l=[]) %}{% macro m(s, l) %}{{ s }}{% if s | length < 100000 %}{{ m(s + s, l + l) }}{% endif %}{% endmacro %}';

  test("random steps that grow: each ends, and the process lives", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(steps, { minLength: 5, maxLength: 60 }), async (body) => {
        expect(await outcomeOf(`${head}${body.join("")}{{ s }}`)).toMatch(/^(text|CHAT_LIMIT|CHAT_TEMPLATE)$/);
      }),
      { numRuns: RANDOM_TEMPLATES },
    );
    await expectToWork();
  });

  test("refuses messages beyond the limit before they go anywhere", async () => {
    const started = runner.threadsStarted;
    await expect(runner.render("{{ messages }}", { messages: "x".repeat(5_000_000) })).rejects.toMatchObject({
      code: "CHAT_LIMIT",
    });
    let deep: unknown = [];
    for (let level = 0; level < 100_000; level++) deep = [deep];
    await expect(runner.render("{{ tools }}", { tools: deep })).rejects.toMatchObject({ code: "CHAT_LIMIT" });
    expect(runner.threadsStarted).toBe(started);
  });
});
