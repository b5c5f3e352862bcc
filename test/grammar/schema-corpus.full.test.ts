// Of real schemas made only of objects, arrays, unions, references, formats, bounds and patterns at least 95 of 100 are
// accepted, in the set that the grammars were made with and in one of other packages; and what walks over their masks
// write satisfies them.

import { Ajv, type ValidateFunction } from "ajv";
import formats from "ajv-formats";
import { describe, expect, test } from "vitest";
import { SchemaCorpus } from "./corpus/corpus.js";
import { Dice } from "../support/dice.js";
import { isUri } from "./cases/uri.js";
import { type Reading, readings, refusalCounts } from "./schema-corpus.js";
import { FaultLog } from "./walking/fault-log.js";
import { MaskWalker } from "./walking/mask-walker.js";

const LEAST_ACCEPTED = 0.95;
/** Formats that ajv knows and docs/structured-output.md does not name. */
const WITHOUT_EFFECT = [
  "uri-template",
  "url",
  "regex",
  "iso-time",
  "iso-date-time",
  "byte",
  "int32",
  "int64",
  "float",
  "double",
  "password",
  "binary",
];
const WALKS = 3;
/** Of one walk, which goes byte by byte: some need thousands for the properties that have to be there. */
const MAX_BYTES = 10_000;

const corpus = new SchemaCorpus();
const absent = corpus.missing;

/** The draft's own meaning of references is left to ajv; schemas that it cannot read are not judged. */
function validatorOf(schema: Reading["schema"]): ValidateFunction | undefined {
  const ajv = new Ajv({ strict: false, logger: false, validateSchema: false, multipleOfPrecision: 9 });
  (formats as unknown as (ajv: Ajv) => void)(ajv);
  ajv.addFormat("uri", isUri);
  for (const format of WITHOUT_EFFECT) ajv.addFormat(format, true);
  try {
    const { $schema: _dialect, $id: _id, id: _oldId, ...rest } = schema;
    return ajv.compile(rest);
  } catch {
    return undefined;
  }
}

describe.skipIf(absent !== undefined)(`real schemas${absent === undefined ? "" : `: ${absent}`}`, () => {
  test.each([
    ["collected", 500, (): Iterable<Reading> => readings(corpus.collected())],
    ["of other packages", 300, (): Iterable<Reading> => readings(corpus.others())],
  ] as const)("%s", async (_title, least, read) => {
    const faults = new FaultLog();
    const plain: Reading[] = [];
    let [judged, walked] = [0, 0];
    for (const reading of read()) {
      if (reading.plain) plain.push({ ...reading, schema: {}, grammar: undefined });
      const { grammar, schema, origin } = reading;
      if (grammar === undefined) continue;
      const validate = validatorOf(schema);
      if (validate === undefined) continue;
      judged++;
      await faults.guard(origin, () => {
        const walker = new MaskWalker(grammar);
        const dice = new Dice(judged);
        for (let count = 0; count < WALKS; count++) {
          const bytes = walker.walkOnce(dice, { maxTokens: MAX_BYTES });
          if (bytes === undefined) continue;
          walked++;
          const text = Buffer.from(bytes).toString();
          if (!validate(JSON.parse(text)))
            faults.add({ form: origin, errors: validate.errors, text: text.slice(0, 2000) });
        }
      });
    }
    faults.expectNone();
    const refused = plain.filter(({ refusal }) => refusal !== undefined);
    expect(plain.length).toBeGreaterThanOrEqual(least);
    expect(walked).toBeGreaterThanOrEqual(2 * least);
    const share = 1 - refused.length / plain.length;
    expect({ share, refusals: share >= LEAST_ACCEPTED ? [] : refusalCounts(refused) }).toEqual({
      share: expect.any(Number),
      refusals: [],
    });
  });
});
