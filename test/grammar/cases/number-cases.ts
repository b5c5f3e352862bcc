// Bounds of numbers, and arithmetic that judges a text by them: exactly, and as a reader with 64-bit numbers would.

import type { Dice } from "../../support/dice.js";
import { compare, type Decimal, decimalOf, decimalOfNumber, isMultiple, isNumber, isWhole } from "./decimal.js";

export interface NumberSchema {
  readonly type: "integer" | "number";
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly exclusiveMaximum?: number;
  readonly multipleOf?: number;
}

/** "either": the number is right, but docs/structured-output.md does not say that it may be spelled so. */
export type Verdict = "accept" | "refuse" | "either";

/** Significant digits that every 64-bit number keeps. */
const SIGNIFICANT_DIGITS = 15;
/** Texts so short have whole units of 1 / SHORT_SCALE, and so have the multiples of the cases below. */
const SHORT_CHARACTERS = 7;
const SHORT_SCALE = 1e6;

export class NumberJudge {
  readonly #schema: NumberSchema;
  readonly #limits: readonly {
    readonly keyword: keyof NumberSchema;
    readonly value: number;
    readonly exact: Decimal;
  }[];
  readonly #step: Decimal | undefined;
  /** Digits before the point of the largest bound. */
  readonly #wholeDigits: number;

  constructor(schema: NumberSchema) {
    this.#schema = schema;
    const keywords = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"] as const;
    this.#limits = keywords.flatMap((keyword) => {
      const value = schema[keyword];
      return value === undefined ? [] : [{ keyword, value, exact: decimalOfNumber(value) }];
    });
    this.#step = schema.multipleOf === undefined ? undefined : decimalOfNumber(schema.multipleOf);
    this.#wholeDigits = Math.max(
      1,
      ...this.#limits.map(({ value }) => BigInt(Math.trunc(Math.abs(value))).toString().length),
    );
  }

  verdict(text: string): Verdict {
    if (text.length <= SHORT_CHARACTERS && (this.#step === undefined || !text.includes("e")))
      return this.#shortVerdict(text);
    const exact = decimalOf(text);
    if (exact === undefined || !this.#isAllowed(exact)) return "refuse";
    const rounded = Number(text);
    if (Number.isFinite(rounded) && !this.#isAllowed(decimalOfNumber(rounded))) {
      // The documents promise bounds to readers with 64-bit numbers, and multiples only as they are written.
      return this.#step === undefined ? "refuse" : "either";
    }
    return this.#isPlain(text) ? "accept" : "either";
  }

  /** So few digits are their own shortest decimal: comparing 64-bit numbers is exact, and a hundred times as fast. */
  #shortVerdict(text: string): Verdict {
    if (!isNumber(text)) return "refuse";
    const value = Number(text);
    const {
      type,
      minimum = -Infinity,
      maximum = Infinity,
      exclusiveMinimum = -Infinity,
      exclusiveMaximum = Infinity,
    } = this.#schema;
    const inside =
      value >= minimum &&
      value <= maximum &&
      (value > exclusiveMinimum || exclusiveMinimum === -Infinity) &&
      (value < exclusiveMaximum || exclusiveMaximum === Infinity);
    if (!inside || (type === "integer" && !Number.isInteger(value)) || !this.#isShortMultiple(value)) return "refuse";
    return this.#isPlain(text) ? "accept" : "either";
  }

  #isShortMultiple(value: number): boolean {
    const { multipleOf } = this.#schema;
    if (multipleOf === undefined) return true;
    return Math.round(value * SHORT_SCALE) % Math.round(multipleOf * SHORT_SCALE) === 0;
  }

  /** No exponent, no negative zero, no fraction that a 64-bit number could not keep; a whole number where one is asked for. */
  #isPlain(text: string): boolean {
    const found = /^-?(\d+)(?:\.(\d+))?$/.exec(text);
    if (found === null || /^-[0.]+$/.test(text)) return false;
    const [, whole = "", fraction] = found;
    if (fraction === undefined) return true;
    if (this.#schema.type === "integer" || whole.length > SIGNIFICANT_DIGITS) return false;
    return fraction.length <= SIGNIFICANT_DIGITS - Math.max(this.#wholeDigits, whole.length);
  }

  #isAllowed(value: Decimal): boolean {
    if (this.#schema.type === "integer" && !isWhole(value)) return false;
    if (this.#step !== undefined && !isMultiple(value, this.#step)) return false;
    return this.#limits.every(({ keyword, exact }) => {
      const order = compare(value, exact);
      switch (keyword) {
        case "minimum":
          return order >= 0;
        case "maximum":
          return order <= 0;
        case "exclusiveMinimum":
          return order > 0;
        default:
          return order < 0;
      }
    });
  }
}

type Draw = (dice: Dice) => number;

const natural = (dice: Dice, most: number): number => dice.below(most + 1);
const signed = (dice: Dice, value: number): number => (dice.below(3) === 0 ? -value : value);
const INTEGERS: readonly Draw[] = [
  (dice) => signed(dice, natural(dice, 12)),
  (dice) => signed(dice, natural(dice, 2000)),
  (dice) => signed(dice, natural(dice, 10 ** dice.below(10))),
  (dice) => signed(dice, 10 ** dice.below(16) - dice.below(2)),
  (dice) =>
    signed(
      dice,
      dice.pick([
        255,
        256,
        1000,
        1024,
        32767,
        65535,
        65536,
        2147483647,
        4294967295,
        Number.MAX_SAFE_INTEGER,
        2 ** 53,
        2 ** 63,
      ]),
    ),
  (dice) => signed(dice, natural(dice, 999) * 10 ** (12 + dice.below(10))),
];
const DECIMALS: readonly Draw[] = [
  (dice) => signed(dice, natural(dice, 1000) / 10 ** dice.below(4)),
  (dice) => signed(dice, natural(dice, 1_000_000) / 10 ** dice.below(9)),
  (dice) => signed(dice, natural(dice, 99) * 10 ** -dice.below(20)),
  (dice) =>
    signed(
      dice,
      dice.pick([0, 0.1, 0.5, 0.25, 0.01, 0.001, 0.005, 0.99, 0.999, 1.05, 9.99, 99.5, 3.14162, 273.15, 1e-7, 1.5e-9]),
    ),
  (dice) => signed(dice, natural(dice, 10 ** 9) / 1000),
];

export function numberSchema(dice: Dice): NumberSchema {
  const type = dice.below(2) === 0 ? "integer" : "number";
  const draws = type === "integer" && dice.below(6) > 0 ? INTEGERS : dice.below(3) === 0 ? INTEGERS : DECIMALS;
  const draw = dice.pick(draws);
  const [low = 0, high = 0] = [draw(dice), dice.below(2) === 0 ? draw(dice) : dice.pick(draws)(dice)].sort(
    (a, b) => a - b,
  );
  const sides = dice.below(4);
  return {
    type,
    ...(sides === 1 ? {} : { [dice.below(3) === 0 ? "exclusiveMinimum" : "minimum"]: low }),
    ...(sides === 0 ? {} : { [dice.below(3) === 0 ? "exclusiveMaximum" : "maximum"]: high }),
    ...(dice.below(12) === 0 ? { minimum: low, exclusiveMinimum: low + dice.below(3) - 1 } : {}),
  };
}

export function multipleSchema(dice: Dice): NumberSchema {
  const multipleOf = dice.pick([
    1, 2, 3, 4, 5, 7, 10, 12, 25, 50, 60, 100, 0.5, 0.25, 0.1, 0.01, 0.05, 0.001, 1.5, 2.5, 1000,
  ]);
  const type = Number.isInteger(multipleOf) && dice.below(3) > 0 ? "integer" : "number";
  const bound = (): number => (dice.below(2) === 0 ? dice.below(2000) - 500 : (dice.below(4000) - 1000) / 4);
  const [low = 0, high = 0] = [bound(), bound()].sort((a, b) => a - b);
  const sides = dice.below(4);
  return {
    type,
    multipleOf,
    ...(sides % 2 === 0 ? {} : { [dice.below(3) === 0 ? "exclusiveMinimum" : "minimum"]: low }),
    ...(sides < 2 ? {} : { [dice.below(3) === 0 ? "exclusiveMaximum" : "maximum"]: high + multipleOf }),
  };
}
