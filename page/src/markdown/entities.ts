// HTML entities in Markdown text. Nothing of a model's text is ever parsed as HTML, so these few are decoded here.

const NAMED: Readonly<Record<string, string>> = {
  amp: "&",
  lt: "<",
  gt: ">",
  quot: '"',
  apos: "'",
  nbsp: "\u00a0",
  copy: "©",
  reg: "®",
  trade: "™",
  deg: "°",
  plusmn: "±",
  times: "×",
  divide: "÷",
  middot: "·",
  hellip: "…",
  ndash: "–",
  mdash: "—",
  larr: "←",
  rarr: "→",
  le: "≤",
  ge: "≥",
  ne: "≠",
  euro: "€",
};
const LARGEST_CODE_POINT = 0x10_ff_ff;

/** Text with its entities decoded; unknown ones stay as they are. */
export function decodeEntities(text: string): string {
  return text.replaceAll(/&(?:#(\d{1,7})|#x([\da-f]{1,6})|([a-z]+));/gi, (whole, decimal, hexadecimal, name) => {
    if (name !== undefined) return NAMED[String(name)] ?? whole;
    const code = decimal === undefined ? Number.parseInt(String(hexadecimal), 16) : Number(decimal);
    return code > 0 && code <= LARGEST_CODE_POINT ? String.fromCodePoint(code) : whole;
  });
}
