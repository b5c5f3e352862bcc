// The thread that renders chat templates: text and variables in, text out. What a template asks for beyond the limits
// ends its rendering here; what that does not catch, the LimitedWorker around the thread does.

import { answerCalls } from "../worker/answer-calls.js";
import { BoundedInterpreter } from "./bounded-interpreter.js";
import { boundRealm, checkList, RenderLimitError } from "./bounded-realm.js";
import { Environment, type JinjaProgram, parse, tokenize } from "./jinja.js";
import { MAX_TEMPLATE_CHARACTERS } from "./limits.js";
import type { RenderAnswer, RenderQuestion } from "./render-message.js";
import { strftime } from "./strftime.js";

/** Of parsed templates: each model has one or two. */
const MAX_PROGRAMS = 8;

const programs = new Map<string, JinjaProgram>();

function programOf(template: string): JinjaProgram {
  const known = programs.get(template);
  if (known !== undefined) return known;
  if (template.length > MAX_TEMPLATE_CHARACTERS) throw new RenderLimitError(`has more than ${MAX_TEMPLATE_CHARACTERS} characters`);
  const program = parse(tokenize(template, { lstrip_blocks: true, trim_blocks: true }));
  if (programs.size >= MAX_PROGRAMS) programs.delete(programs.keys().next().value as string);
  programs.set(template, program);
  return program;
}

function render(program: JinjaProgram, variables: Readonly<Record<string, unknown>>): RenderAnswer {
  const environment = new Environment();
  let timed = false;
  const globals: Readonly<Record<string, unknown>> = {
    true: true, True: true, false: false, False: false, none: null, None: null,
    raise_exception: (message: unknown) => {
      throw new Error(String(message));
    },
    range,
    strftime_now: (format: unknown) => {
      timed = true;
      return strftime(new Date(), String(format));
    },
  };
  for (const [name, value] of Object.entries(globals)) environment.set(name, value);
  for (const [name, value] of Object.entries(variables)) if (!Object.hasOwn(globals, name) && name !== "namespace") environment.set(name, value);
  const text = String(new BoundedInterpreter(environment).run(program).value);
  return { kind: "text", text, timed };
}

function range(first: number, second?: number, step = 1): number[] {
  const [start, stop] = second === undefined ? [0, first] : [first, second];
  if (step === 0 || ![start, stop, step].every(Number.isFinite)) throw new Error("range() takes numbers, and no step of zero");
  const count = Math.max(0, Math.ceil((stop - start) / step));
  checkList(count);
  return Array.from({ length: count }, (_, at) => start + at * step);
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
