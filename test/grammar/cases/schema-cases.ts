// Random schemas of all that the documents say is followed, nested in each other. Names share beginnings, unions share
// parts, and every keyword has a neighbour that it could be mixed up with.

import type { Dice } from "../../support/dice.js";

export type JsonSchema = Readonly<Record<string, unknown>>;

const NAMES = ["a", "ab", "abc", "b", "id", "name", "names", "kind", "x-a", "x-b", "é", "n1"];
const WORDS = ["a", "ab", "abc", "b", "Jan", "Jun", "Jul", "red", "dark-red", "", "é", "on", "off"];
export const PATTERNS = [
  "^[a-c]+$",
  "^\\d{2,4}$",
  "^[A-Z]{2}-\\d$",
  "^(?:a|b\\\\)*$",
  "^#[0-9a-f]{3}$",
  "^a",
  "b$",
  "^(ab|a)?c*$",
  '^[^"]{1,3}$',
];
const NAME_PATTERNS = ["^x-", "^[a-b]+$", "\\d$", "^é"];
export const FORMAT_SAMPLES: Readonly<Record<string, readonly string[]>> = {
  date: ["2024-02-28", "1999-12-31", "2000-01-01"],
  time: ["12:00:00Z", "23:59:59.5+01:00", "00:00:00-23:30"],
  "date-time": ["2024-02-28T12:00:00Z", "1985-04-12T23:20:50.52Z", "1996-12-19T16:39:57-08:00"],
  duration: ["P1D", "PT1H30M", "P1Y2M3DT4H5M6S", "P4W"],
  email: ["a@b.org", "first.last+tag@sub.example.com", "x@a--b.org", "o'neil@example.com"],
  hostname: ["example.org", "a-b.c", "xn--bcher-kva.example", "a--b"],
  ipv4: ["127.0.0.1", "255.255.255.255", "0.0.0.0"],
  ipv6: ["::1", "2001:db8::8a2e:370:7334", "1:2:3:4:5:6:7:8", "::ffff:192.0.2.1"],
  uuid: ["123e4567-e89b-12d3-a456-426614174000", "00000000-0000-0000-0000-000000000000"],
  uri: [
    "https://example.org/a?b=c#d",
    "mailto:a@b.org",
    "urn:isbn:0451450523",
    "https://user:pw@a--b.example:8080/",
    "file:///etc/hosts",
    "http://[::1]/x",
    "tel:+1-816-555-1212",
  ],
  "json-pointer": ["", "/a/b", "/a~1b/~0", "/0"],
};

export class SchemaCases {
  readonly #dice: Dice;
  readonly #definitions: Record<string, JsonSchema> = {};

  private constructor(dice: Dice) {
    this.#dice = dice;
  }

  static draw(dice: Dice): JsonSchema {
    const cases = new SchemaCases(dice);
    const schema = cases.#schema(3);
    return Object.keys(cases.#definitions).length === 0 ? schema : { $defs: cases.#definitions, ...schema };
  }

  #chance(one: number): boolean {
    return this.#dice.below(one) === 0;
  }

  #names(most: number): string[] {
    return [...new Set(Array.from({ length: this.#dice.below(most + 1) }, () => this.#dice.pick(NAMES)))];
  }

  #schema(depth: number): JsonSchema {
    const kind = this.#dice.below(depth === 0 ? 8 : 24);
    if (kind < 8) return this.#leaf();
    if (kind < 13) return this.#object(depth - 1);
    if (kind < 16) return this.#array(depth - 1);
    if (kind < 18)
      return {
        [this.#chance(2) ? "anyOf" : "oneOf"]: Array.from({ length: 1 + this.#dice.below(3) }, () =>
          this.#schema(depth - 1),
        ),
      };
    if (kind === 18) return this.#beside(depth - 1);
    if (kind === 19) return this.#allOf(depth - 1);
    if (kind === 20) return this.#recursion();
    if (kind === 21) return this.#reference(this.#schema(depth - 1));
    if (kind === 22)
      return this.#chance(3)
        ? {}
        : { type: ["array", "object", "integer", "null"].slice(this.#dice.below(3)), items: this.#leaf() };
    return this.#discriminated(depth - 1);
  }

  #leaf(): JsonSchema {
    const dice = this.#dice;
    const low = dice.below(40) - 10;
    switch (dice.below(13)) {
      case 0:
        return { type: "integer", minimum: low, maximum: low + dice.below(300) };
      case 1:
        return {
          type: "number",
          [this.#chance(2) ? "minimum" : "exclusiveMinimum"]: low / 4,
          maximum: low / 4 + 1 + dice.below(50),
        };
      case 2:
        return dice.pick([
          { type: "integer" },
          { type: "number" },
          { type: "boolean" },
          { type: "null" },
          { type: "integer", multipleOf: 5, minimum: low },
          { type: "number", multipleOf: 0.5, maximum: low + 20 },
        ]);
      case 3:
        return { type: "string" };
      case 4:
        return { type: "string", minLength: dice.below(3), maxLength: 2 + dice.below(5) };
      case 5:
        return { type: "string", pattern: dice.pick(PATTERNS) };
      case 6:
        return {
          type: "string",
          pattern: dice.pick(PATTERNS),
          ...(this.#chance(2) ? { minLength: 1 } : {}),
          maxLength: 4 + dice.below(5),
        };
      case 7:
        return { type: "string", format: dice.pick(Object.keys(FORMAT_SAMPLES)) };
      case 8:
      case 9:
        return { enum: this.#words() };
      case 10:
        return { const: dice.pick([...WORDS, 1, -2.5, null, true]) };
      case 11:
        return { type: ["string", "null"], maxLength: 3 };
      default:
        return {
          type: "string",
          [this.#chance(2) ? "anyOf" : "oneOf"]: [
            { maxLength: dice.below(2) },
            { minLength: 2 + dice.below(2), maxLength: 5 },
          ],
        };
    }
  }

  #words(): readonly unknown[] {
    const values = Array.from({ length: 1 + this.#dice.below(5) }, () => this.#dice.pick([...WORDS, 1, 12, 1.5, null]));
    return [...new Set(values)];
  }

  #object(depth: number): JsonSchema {
    const names = this.#names(4);
    const properties = Object.fromEntries(names.map((name) => [name, this.#schema(depth)]));
    const additional = this.#dice.below(4);
    const extra = {
      ...(this.#chance(5)
        ? {
            patternProperties: {
              [this.#dice.pick(NAME_PATTERNS)]: this.#leaf(),
              ...(this.#chance(3) ? { [this.#dice.pick(NAME_PATTERNS)]: this.#leaf() } : {}),
            },
          }
        : {}),
      ...(this.#chance(7) ? { minProperties: this.#dice.below(3) } : {}),
      ...(this.#chance(7) ? { maxProperties: 1 + this.#dice.below(4) } : {}),
      ...(this.#chance(7) && names.length > 1 ? { dependentRequired: { [names[0] as string]: [names[1]] } } : {}),
    };
    const required = names.filter(() => this.#chance(2));
    return {
      type: "object",
      ...(names.length > 0 || this.#chance(2) ? { properties } : {}),
      ...(required.length > 0 ? { required } : {}),
      ...([{}, { additionalProperties: false }, { additionalProperties: this.#leaf() }, {}][additional] as object),
      ...extra,
    };
  }

  #array(depth: number): JsonSchema {
    const dice = this.#dice;
    const counts = {
      ...(this.#chance(2) ? { minItems: dice.below(3) } : {}),
      ...(this.#chance(2) ? { maxItems: 2 + dice.below(3) } : {}),
    };
    if (this.#chance(5))
      return {
        type: "array",
        prefixItems: Array.from({ length: 1 + dice.below(3) }, () => this.#schema(depth)),
        items: this.#chance(2) ? false : this.#leaf(),
      };
    if (this.#chance(5))
      return {
        type: "array",
        items: { enum: this.#words() },
        uniqueItems: true,
        ...(this.#chance(2) ? { maxItems: 3 } : {}),
      };
    return { type: "array", items: this.#schema(depth), ...counts };
  }

  /** A union beside keywords that hold for all of it. */
  #beside(depth: number): JsonSchema {
    const names = [...new Set(["a", "b", ...this.#names(2)])];
    const properties = Object.fromEntries(names.map((name) => [name, this.#schema(depth)]));
    return {
      type: "object",
      properties,
      additionalProperties: false,
      [this.#chance(2) ? "anyOf" : "oneOf"]: [{ required: ["a"] }, { required: ["b"] }],
    };
  }

  #allOf(depth: number): JsonSchema {
    if (this.#chance(2))
      return {
        allOf: [
          { type: "integer", minimum: this.#dice.below(20) },
          { maximum: 20 + this.#dice.below(100) },
          ...(this.#chance(2) ? [{ multipleOf: 2 }] : []),
        ],
      };
    const part = (): JsonSchema => {
      const names = this.#names(2);
      return {
        properties: Object.fromEntries(names.map((name) => [name, this.#schema(depth)])),
        required: names.slice(0, 1),
      };
    };
    return { type: "object", allOf: [part(), part()] };
  }

  #discriminated(depth: number): JsonSchema {
    const kinds = ["circle", "circles", "square"].slice(0, 2 + this.#dice.below(2));
    const variants = kinds.map((kind) => ({
      type: "object",
      properties: { kind: { const: kind }, [this.#dice.pick(NAMES)]: this.#schema(depth) },
      required: ["kind"],
      additionalProperties: false,
    }));
    return { [this.#chance(2) ? "anyOf" : "oneOf"]: variants };
  }

  #reference(schema: JsonSchema): JsonSchema {
    const name = `d${Object.keys(this.#definitions).length}`;
    this.#definitions[name] = schema;
    return { $ref: `#/$defs/${name}` };
  }

  #recursion(): JsonSchema {
    const name = `d${Object.keys(this.#definitions).length}`;
    const self = { $ref: `#/$defs/${name}` };
    const bodies: readonly JsonSchema[] = [
      {
        type: "object",
        properties: { value: this.#leaf(), next: { anyOf: [self, { type: "null" }] } },
        required: ["next"],
        additionalProperties: false,
      },
      {
        type: "object",
        properties: { id: this.#leaf(), children: { type: "array", items: self, maxItems: 2 } },
        required: ["id"],
      },
      { anyOf: [this.#leaf(), { type: "array", items: self, minItems: 1, maxItems: 2 }] },
      { type: "object", additionalProperties: self, maxProperties: 2 },
    ];
    this.#definitions[name] = this.#dice.pick(bodies);
    return self;
  }
}
