// The thread that renders chat templates: template and variables in, text out. A template that exceeds the limits is
// ended here, or else by the LimitedWorker around the thread.

import { LruCache } from "../../lru.js";
import { answerCalls } from "../../worker/answer-calls.js";
import { boundRealm, RenderLimitError } from "./jinja/bounded-realm.js";
import { createGlobals } from "./jinja/globals.js";
import { Scope } from "./jinja/scope.js";
import { parseTemplate } from "./jinja/source.js";
import { renderProgram } from "./jinja/statements.js";
import type { TemplateProgram } from "./jinja/syntax.js";
import { type Trust, valueOf } from "./jinja/values.js";
import { MAX_TEMPLATE_CHARACTERS } from "../limits.js";
import type { RenderReply, RenderRequest } from "./render-message.js";

/** Parsed templates that are kept; each model has one or two. */
const MAX_PROGRAMS = 8;

const programs = new LruCache<string, TemplateProgram>({ maxEntries: MAX_PROGRAMS });

function programOf(template: string): TemplateProgram {
  const known = programs.get(template);
  if (known !== undefined) return known;
  if (template.length > MAX_TEMPLATE_CHARACTERS)
    throw new RenderLimitError(`has more than ${MAX_TEMPLATE_CHARACTERS} characters`);
  const program = parseTemplate(template);
  programs.set(template, program);
  return program;
}

/** Templates make control tokens of a role (`'<|' + message.role + '|>'`), so only known roles are trusted. */
const ROLES = new Set(["system", "developer", "user", "assistant", "tool"]);

const isTrusted: Trust = (path, text) => {
  switch (path.join(".")) {
    case "bos_token":
    case "eos_token":
      return true;
    case "messages.*.role":
      return ROLES.has(text);
    default:
      return false;
  }
};

function render(program: TemplateProgram, variables: Readonly<Record<string, unknown>>): RenderReply {
  const globals = createGlobals();
  const scope = new Scope(globals.scope);
  for (const [name, value] of Object.entries(variables))
    if (!globals.scope.has(name)) scope.set(name, valueOf(value, isTrusted, [name]));
  const { value: text, borders: untrusted } = renderProgram(program, scope);
  return { kind: "text", text, untrusted, timed: globals.timed() };
}

function guarded(work: () => RenderReply): RenderReply {
  try {
    return work();
  } catch (error) {
    if (error instanceof RenderLimitError) return { kind: "limit", message: error.message };
    // Limits of V8: call depth, and the length of a text that has not been flattened yet.
    if (error instanceof RangeError) return { kind: "limit", message: `went too far: ${error.message}` };
    return { kind: "refused", message: error instanceof Error ? error.message : String(error) };
  }
}

boundRealm();
answerCalls(({ template, variables }: RenderRequest): RenderReply[] =>
  variables.map((text) => guarded(() => render(programOf(template), JSON.parse(text) as Record<string, unknown>))),
);
