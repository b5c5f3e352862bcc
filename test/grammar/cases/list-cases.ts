// Lists of values whose spellings share beginnings, middles and ends, which is where automata that merge too much go
// wrong: after `J`, what follows `an` must not follow `ul`.

import type { Dice } from "../../support/dice.js";

const WORDS = [
  "Jan",
  "Feb",
  "Mar",
  "Apr",
  "May",
  "Jun",
  "Jul",
  "Aug",
  "Sep",
  "Oct",
  "Nov",
  "Dec",
  "Mon",
  "Tue",
  "Wed",
  "Thu",
  "Fri",
  "Sat",
  "Sun",
  "north",
  "south",
  "east",
  "west",
  "northeast",
  "northwest",
  "southeast",
  "southwest",
  "red",
  "green",
  "blue",
  "dark",
  "light",
  "dark-red",
  "dark_red",
  "none",
  "null",
  "true",
  "auto",
  "inherit",
  "initial",
  "unset",
  "application/json",
  "application/xml",
  "text/xml",
  "text/plain",
  "GET",
  "HEAD",
  "POST",
  "PUT",
  "PATCH",
  "DELETE",
  "en",
  "en-US",
  "en-GB",
  "de",
  "de-AT",
  "de-CH",
  "fr",
  "fr-CA",
  "pt-BR",
  "zh-Hans",
  "zh-Hant",
  "1",
  "10",
  "100",
  "1.0",
  "1.1",
  "v1",
  "v1beta1",
  "v1beta2",
  "v2",
  "us-east-1",
  "us-east-2",
  "us-west-1",
  "us-west-2",
  "eu-west-1",
  "eu-central-1",
  "small",
  "smaller",
  "smallest",
  "",
  " ",
  "a",
  "aa",
  "aaa",
  "ab",
  "aba",
  "abab",
  "é",
  "è",
  "naïve",
  "naive",
  "日本",
  "日本語",
  "日曜日",
  "😀",
  "😁",
  "👍🏽",
  "👍",
] as const;
const ODD = ['"', "\\", "/", "\n", "\t", "\u0001", "\u007f", "\u2028", "}", "{", ",", ":", "[", "]", "'"] as const;
const LETTERS = "abcé0-";

/** Strings by themselves, made of few parts put together in many ways. */
export function stringList(dice: Dice): readonly string[] {
  const count = 2 + dice.below(dice.below(8) === 0 ? 120 : 14);
  const parts = partsOf(dice);
  const make = [
    () => dice.pick(WORDS),
    () => `${dice.pick(parts)}${dice.pick(parts)}${dice.pick(parts)}`,
    () => `${dice.pick(parts)}${dice.pick(WORDS)}`,
    () => `${dice.pick(WORDS)}${dice.pick(parts)}`,
    () => `${dice.pick(parts)}${dice.pick(ODD)}${dice.pick(parts)}`,
    () => Array.from({ length: 1 + dice.below(5) }, () => dice.pick([...LETTERS])).join(""),
  ];
  const ways = Array.from({ length: 1 + dice.below(2) }, () => dice.pick(make));
  return [...new Set(Array.from({ length: count }, () => dice.pick(ways)()))];
}

/** Numbers, words, and now and then whole objects and lists. */
export function mixedList(dice: Dice): readonly unknown[] {
  const make = [
    () => dice.below(2000) - 1000,
    () => (dice.below(20_000) - 10_000) / 10 ** dice.below(5),
    () => dice.pick([0, 1, 10, 100, 1e21, -1e21, 1e-7, 1.5e-9, Number.MAX_SAFE_INTEGER, 123456789012345680000]),
    () => dice.pick([true, false, null]),
    () => dice.pick(WORDS),
    () => String(dice.below(200)),
    () => ({ [dice.pick(WORDS)]: dice.below(20), kind: dice.pick(WORDS) }),
    () => Array.from({ length: dice.below(3) }, () => dice.pick([1, 11, "1", "11", null])),
  ];
  const ways = Array.from({ length: 1 + dice.below(3) }, () => dice.pick(make));
  const values = Array.from({ length: 1 + dice.below(16) }, () => dice.pick(ways)());
  return [...new Map(values.map((value) => [JSON.stringify(value), value])).values()];
}

function partsOf(dice: Dice): readonly string[] {
  return Array.from({ length: 2 + dice.below(4) }, () => {
    const word = dice.pick(WORDS);
    const characters = [...word];
    return dice.below(3) === 0
      ? word
      : characters.slice(dice.below(characters.length), 1 + dice.below(characters.length + 1)).join("");
  });
}
