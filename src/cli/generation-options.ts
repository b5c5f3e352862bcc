// The options that limit what a model generates, for the commands that print text.

import type { OptionTable } from "./option-table.js";

/** The options that limit a generation. */
export const GENERATION_OPTIONS = {
  tokens: {
    kind: "count",
    short: "n",
    placeholder: "COUNT",
    range: { from: 1, to: 2 ** 31 - 1 },
    description: "maximum number of tokens to generate",
    fallback: "until the context is full",
    hint: "leave it out to generate until the model stops or the context is full",
  },
  stop: { kind: "list", placeholder: "TEXT", description: "stop before this text (repeatable)" },
} as const satisfies OptionTable;
