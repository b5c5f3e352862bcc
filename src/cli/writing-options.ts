// The options that limit what a model writes, for the commands that print text.

import type { OptionTable } from "./option-table.js";

export const WRITING_OPTIONS = {
  tokens: {
    kind: "count",
    short: "n",
    placeholder: "COUNT",
    range: { from: 1, to: 2 ** 31 - 1 },
    description: "the most tokens to write",
    fallback: "as many as the context holds",
    hint: "leave it out to write until the model ends or the context is full",
  },
  stop: { kind: "list", placeholder: "TEXT", description: "end where this text would appear (repeatable)" },
} as const satisfies OptionTable;
