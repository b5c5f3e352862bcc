// How the model families write thoughts, calls and answers, each with a short template that writes calls in the same way.
// Nothing here comes from src/.

import { LISTED } from "./listed-families.js";
import { PLAIN } from "./plain-families.js";
import type { ConventionFamily } from "./spoken-conventions.js";
import { TAGGED } from "./tagged-families.js";

export type { ConventionFamily, SpokenCall } from "./spoken-conventions.js";

/** The families, each as its marks are control tokens of the vocabulary. */
export const CONVENTION_FAMILIES: Readonly<Record<string, ConventionFamily>> = Object.fromEntries(
  Object.entries({ ...TAGGED, ...LISTED, ...PLAIN }).map(([name, spoken]) => [
    name,
    { vocabulary: "bpe" as const, tools: true, ...spoken },
  ]),
);
