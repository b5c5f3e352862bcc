// The thread that renders chat templates: text and variables in, text out. What a template asks for beyond the limits
// ends its rendering here; what that does not catch, the LimitedWorker around the thread does.

import { LruCache } from "../../lru.js";
import { answerCalls } from "../../worker/answer-calls.js";
import { boundRealm, RenderLimitError } from "./jinja/bounded-realm.js";
import { createGlobals } from "./jinja/globals.js";
import { Scope } from "./jinja/scope.js";
import { parseTemplate } from "./jinja/source.js";
import { renderProgram } from "./jinja/statements.js";
import type { Program } from "./jinja/syntax.js";
import { type Trust, valueOf } from "./jinja/values.js";
import { MAX_TEMPLATE_CHARACTERS } from "../limits.js";
import type { RenderAnswer, RenderQuestion } from "./render-message.js";

/** Of parsed templates: each model has one or two. */
const MAX_PROGRAMS = 8;

const programs = new LruCache<string, Program>({ maxEntries: MAX_PROGRAMS });

function programOf(template: string): Program {
  const known = programs.get(template);
  if (known !== undefined) return known;
  if (template.length > MAX_TEMPLATE_CHARACTERS)
    throw new RenderLimitError(`has more than ${MAX_TEMPLATE_CHARACTERS} characters`);
  const program = parseTemplate(template);
  programs.set(template, program);
  return program;
}

/** Templates make control tokens of a role (`'<|' + message.role + '|>'`), so that it has to be one that is known. */
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

function render(program: Program, variables: Readonly<Record<string, unknown>>): RenderAnswer {
  const globals = createGlobals();
  const scope = new Scope(globals.scope);
  for (const [name, value] of Object.entries(variables))
    if (!globals.scope.has(name)) scope.set(name, valueOf(value, isTrusted, [name]));
  const { value: text, borders: untrusted } = renderProgram(program, scope);
  return { kind: "text", text, untrusted, timed: globals.timed() };
}

function guarded(work: () => RenderAnswer): RenderAnswer {
  try {
    return work();
  } catch (error) {
    if (error instanceof RenderLimitError) return { kind: "limit", message: error.message };
    // The engine's own limits: the depth of calls, and the length of a text that is not yet written out.
    if (error instanceof RangeError) return { kind: "limit", message: `went too far: ${error.message}` };
    return { kind: "refused", message: error instanceof Error ? error.message : String(error) };
  }
}

boundRealm();
answerCalls(({ template, variables }: RenderQuestion): RenderAnswer[] =>
  variables.map((text) => guarded(() => render(programOf(template), JSON.parse(text) as Record<string, unknown>))),
);
