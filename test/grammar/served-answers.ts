// Answers of a real server at temperature 2, where the model chooses almost at random, each in a form of its own that is
// drawn with the generators of the walks and judged by their judges. See served-answers.test.ts for a few, and
// served-answers.full.test.ts for ten thousand.

import { expect } from "vitest";
import { Dice } from "../support/dice.js";
import { MODEL, startServer } from "../server/serving/running-server.js";
import { mixedList, stringList } from "./cases/list-cases.js";
import { multipleSchema, NumberJudge, type NumberSchema, numberSchema } from "./cases/number-cases.js";
import { anchored, regexBody } from "./cases/regex-cases.js";
import { SchemaCases } from "./cases/schema-cases.js";
import { validatorOf } from "./cases/schema-judge.js";
import { FaultLog } from "./walking/fault-log.js";
import { parsed } from "./walking/mutations.js";

const CLIENTS = 12;
const MAX_TOKENS = 80;
/** Answers that end before they are cut off; the others are in the middle of their form. */
const LEAST_FINISHED = 0.6;
/** Forms that nothing satisfies, or whose union cannot be told apart. */
const MOST_REFUSED = 0.1;

interface Form {
  readonly format: Readonly<Record<string, unknown>>;
  /** Whether a finished answer has the form. */
  readonly holds: (text: string) => boolean;
}

const schemaForm = (schema: unknown, holds: Form["holds"]): Form => ({
  format: { type: "json_schema", json_schema: { name: "form", schema } },
  holds,
});
const listForm = (values: readonly unknown[]): Form =>
  schemaForm({ enum: values }, (text) => values.some((value) => JSON.stringify(value) === text));
const numberForm = (schema: NumberSchema): Form =>
  schemaForm(schema, (text) => new NumberJudge(schema).verdict(text) !== "refuse");
const regexForm = (regex: string): Form => ({
  format: { type: "regex", regex },
  holds: (text) => new RegExp(`^(?:${regex})$`, "u").test(text),
});
const patternForm = (pattern: string): Form =>
  schemaForm({ type: "string", pattern }, (text) => {
    const value = parsed(text);
    return typeof value === "string" && new RegExp(pattern, "u").test(value);
  });

const DEFECTS: readonly Form[] = [
  listForm(["Jan", "Jun", "Jul"]),
  numberForm({ type: "number", minimum: 1, maximum: 1000 }),
  patternForm("^#([A-Fa-f0-9]{6}|[A-Fa-f0-9]{3})$"),
  regexForm("#([A-Fa-f0-9]{6}|[A-Fa-f0-9]{3})"),
  regexForm("[0-9]*[0-9]x"),
];

function drawForm(dice: Dice): Form {
  switch (dice.below(8)) {
    case 0:
      return dice.pick(DEFECTS);
    case 1:
      return listForm(stringList(dice));
    case 2:
      return listForm(mixedList(dice));
    case 3:
      return numberForm(dice.below(3) === 0 ? multipleSchema(dice) : numberSchema(dice));
    case 4:
      return regexForm(regexBody(dice));
    case 5:
      return patternForm(anchored(dice, regexBody(dice)));
    default: {
      const schema = SchemaCases.draw(dice);
      const validate = validatorOf(schema);
      return schemaForm(schema, (text) => {
        const value = parsed(text);
        return value !== undefined && validate(value);
      });
    }
  }
}

interface Answer {
  readonly choices?: readonly {
    readonly message: { readonly content: string | null };
    readonly finish_reason: string;
  }[];
  readonly error?: { readonly message: string; readonly code?: string };
}

async function ask(
  url: string,
  form: Form,
  seed: number,
): Promise<{ readonly status: number; readonly answer: Answer }> {
  const body = {
    model: MODEL,
    messages: [{ role: "user", content: "Which one?" }],
    seed,
    temperature: 2,
    top_k: 0,
    top_p: 1,
    min_p: 0,
    max_tokens: MAX_TOKENS,
    response_format: form.format,
  };
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  return { status: response.status, answer: (await response.json()) as Answer };
}

export async function checkServedAnswers(count: number): Promise<void> {
  const faults = new FaultLog();
  let [next, finished, refused] = [0, 0, 0];
  await using server = await startServer();
  const client = async (): Promise<void> => {
    while (next < count) {
      const seed = next++;
      const form = drawForm(new Dice(5_000_000 + seed));
      const { status, answer } = await ask(server.url, form, seed);
      const choice = answer.choices?.[0];
      if (status === 400) refused++;
      else if (choice === undefined) faults.add({ form: form.format, seed, status, answer });
      else if (choice.finish_reason === "stop") {
        finished++;
        const text = choice.message.content ?? "";
        if (!form.holds(text)) faults.add({ form: form.format, seed, text });
      } else if (choice.finish_reason !== "length")
        faults.add({ form: form.format, seed, finish: choice.finish_reason });
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, client));
  faults.expectNone();
  expect({
    count,
    finished,
    refused,
    enough: finished >= LEAST_FINISHED * count && refused <= MOST_REFUSED * count,
  }).toEqual({ count, finished, refused, enough: true });
}
