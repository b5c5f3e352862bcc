// The template engine's interpreter, with a look at everything it makes. Templates come out of model files, so they are
// taken for hostile; see bounded-realm.ts for what happens inside one operation.

import { checkHeap, checkList, checkText, RenderLimitError } from "./bounded-realm.js";
import { Interpreter, type JinjaEnvironment, type JinjaProgram, type JinjaValue } from "./jinja.js";

/** How many steps go by between two looks at the heap; each makes little by itself. */
const STEPS_BETWEEN_CHECKS = 2048;

/** Expressions and macros inside each other; templates of models have some dozens. Less than the stack could hold. */
const MAX_DEPTH = 1000;

export class BoundedInterpreter extends Interpreter {
  #steps = 0;
  #depth = 0;

  override evaluate(statement: JinjaProgram | undefined, environment: JinjaEnvironment): JinjaValue | undefined {
    if (++this.#steps % STEPS_BETWEEN_CHECKS === 0) checkHeap();
    if (++this.#depth > MAX_DEPTH) throw new RenderLimitError(`went more than ${MAX_DEPTH} levels deep`);
    try {
      const result = super.evaluate(statement, environment);
      const value = result?.value;
      if (typeof value === "string") checkText(value.length);
      else if (Array.isArray(value)) checkList(value.length);
      return result;
    } finally {
      // A loop's break and continue are thrown through here.
      this.#depth--;
    }
  }
}
