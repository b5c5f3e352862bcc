// A template rendered without a thread around it.

import { createGlobals } from "../globals.js";
import { Scope } from "../scope.js";
import { parseTemplate } from "../source.js";
import { renderProgram } from "../statements.js";
import type { Text } from "../text.js";
import { valueOf } from "../values.js";

/** Every variable is from outside. */
export function rendered(template: string, variables: Readonly<Record<string, unknown>>): Text {
  const scope = new Scope(createGlobals().scope);
  for (const [name, value] of Object.entries(variables))
    scope.set(
      name,
      valueOf(value, () => false),
    );
  return renderProgram(parseTemplate(template), scope);
}
