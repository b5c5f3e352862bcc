// Values as text: as Python's str and repr print them, and as JSON. The brackets, quotes and commas that these add
// count as untrusted: the template did not write them.

import { Text, TextBuilder } from "./text.js";
import {
  Dict,
  Float,
  isNumeric,
  isSequence,
  List,
  Namespace,
  numberOf,
  Tuple,
  typeName,
  Undefined,
  type TemplateValue,
} from "./values.js";

/** The options of Python's `json.dumps` that the filter `tojson` accepts. */
export interface JsonStyle {
  /** Undefined prints everything on one line. */
  readonly indent: string | undefined;
  readonly ensureAscii: boolean;
  readonly sortKeys: boolean;
  readonly itemSeparator: string;
  readonly keySeparator: string;
}

/** The defaults of `json.dumps`, except that characters beyond ASCII are not escaped. */
export const PLAIN_JSON: JsonStyle = {
  indent: undefined,
  ensureAscii: false,
  sortKeys: false,
  itemSeparator: ", ",
  keySeparator: ": ",
};

/** A value as `{{ … }}` prints it, like Python's `str`: undefined prints nothing, and strings have no quotes. */
export function printed(value: TemplateValue): Text {
  if (value instanceof Text) return value;
  if (value instanceof Undefined) return Text.trusted("");
  if (isNumeric(value) || value === null) return Text.trusted(shownAtom(value));
  const builder = new TextBuilder();
  show(value, builder);
  return builder.finish();
}

/** A value as Python's `repr` prints it, with quotes around strings. */
export function shown(value: TemplateValue): Text {
  const builder = new TextBuilder();
  show(value, builder);
  return builder.finish();
}

function shownAtom(value: null | boolean | number | Float): string {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  return typeof value === "number" ? shownInteger(value) : shownFloat(value.value);
}

function show(value: TemplateValue, builder: TextBuilder): void {
  const add = (text: string): void => void builder.add(Text.untrusted(text));
  if (value instanceof Text) showText(value, builder);
  else if (isNumeric(value) || value === null) add(shownAtom(value));
  else if (value instanceof List || value instanceof Tuple) {
    const [open, close] = value instanceof List ? ["[", "]"] : ["(", value.items.length === 1 ? ",)" : ")"];
    add(open);
    for (const [place, item] of value.items.entries()) {
      if (place > 0) add(", ");
      show(item, builder);
    }
    add(close);
  } else if (value instanceof Dict || value instanceof Namespace) {
    add("{");
    for (const [place, [key, item]] of entriesOf(value).entries()) {
      if (place > 0) add(", ");
      show(key, builder);
      add(": ");
      show(item, builder);
    }
    add("}");
  } else if (value instanceof Undefined) add("Undefined");
  else add(`<function ${value.name}>`);
}

function showText(text: Text, builder: TextBuilder): void {
  const quote = text.value.includes("'") && !text.value.includes('"') ? '"' : "'";
  builder
    .add(Text.untrusted(quote))
    .add(text.map((stretch) => stretch.replace(ESCAPED_IN_REPR, (character) => shownCharacter(character, quote))))
    .add(Text.untrusted(quote));
}

// Python escapes characters that are not printable: control and format characters, lone surrogates, spaces except the
// usual one.
const ESCAPED_IN_REPR = /[\\'"\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu;
const SHORT_ESCAPES: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\" };

function shownCharacter(character: string, quote: string): string {
  if (character === "'" || character === '"') return character === quote ? `\\${character}` : character;
  const short = SHORT_ESCAPES[character];
  if (short !== undefined) return short;
  const code = character.codePointAt(0) as number;
  const digits = code.toString(16);
  if (code < 0x100) return `\\x${digits.padStart(2, "0")}`;
  return code < 0x10000 ? `\\u${digits.padStart(4, "0")}` : `\\U${digits.padStart(8, "0")}`;
}

function shownInteger(value: number): string {
  return Math.abs(value) < 1e21 ? String(value) : BigInt(value).toString();
}

/** The shortest digits that read back as the number, with an exponent from 1e16 on and below 1e-4. */
function shownFloat(value: number): string {
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value < 0 ? "-inf" : "inf";
  if (value === 0) return Object.is(value, -0) ? "-0.0" : "0.0";
  const [mantissa, exponent] = value.toExponential().split("e") as [string, string];
  const power = Number(exponent);
  if (power < -4 || power >= 16)
    return `${mantissa}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
  const plain = value.toString();
  return plain.includes(".") ? plain : `${plain}.0`;
}

function entriesOf(value: Dict | Namespace): readonly (readonly [TemplateValue, TemplateValue])[] {
  return value instanceof Dict
    ? value.entries()
    : Array.from(value.members, ([name, member]) => [Text.untrusted(name), member]);
}

/** Undefined values are null; Python would raise an error. */
export function json(value: TemplateValue, style: JsonStyle): Text {
  const builder = new TextBuilder();
  writeJson(value, style, builder, "\n");
  return builder.finish();
}

function writeJson(value: TemplateValue, style: JsonStyle, builder: TextBuilder, lineBreak: string): void {
  const add = (text: string): void => void builder.add(Text.untrusted(text));
  if (value === null || value instanceof Undefined) add("null");
  else if (typeof value === "boolean") add(String(value));
  else if (value instanceof Text) writeString(value, style, builder);
  else if (isNumeric(value)) add(jsonNumber(value));
  else if (isSequence(value)) {
    writeItems(value.items, ["[", "]"], { style, builder, lineBreak }, (item, inner) =>
      writeJson(item, style, builder, inner),
    );
  } else if (value instanceof Dict || value instanceof Namespace) {
    const entries = [...entriesOf(value)];
    if (style.sortKeys) entries.sort(([left], [right]) => (keyText(left).value < keyText(right).value ? -1 : 1));
    writeItems(entries, ["{", "}"], { style, builder, lineBreak }, ([key, item], inner) => {
      writeString(keyText(key), style, builder);
      add(style.keySeparator);
      writeJson(item, style, builder, inner);
    });
  } else throw new Error(`Object of type ${typeName(value)} is not JSON serializable`);
}

function writeItems<Item>(
  items: readonly Item[],
  [open, close]: readonly [string, string],
  {
    style,
    builder,
    lineBreak,
  }: { readonly style: JsonStyle; readonly builder: TextBuilder; readonly lineBreak: string },
  write: (item: Item, lineBreak: string) => void,
): void {
  const broken = style.indent !== undefined && items.length > 0;
  const inner = broken ? lineBreak + style.indent : lineBreak;
  const add = (text: string): void => void builder.add(Text.untrusted(text));
  add(open);
  for (const [place, item] of items.entries()) {
    if (place > 0) add(style.itemSeparator);
    if (broken) add(inner);
    write(item, inner);
  }
  if (broken) add(lineBreak);
  add(close);
}

function jsonNumber(value: number | Float): string {
  if (typeof value === "number") return shownInteger(value);
  const text = shownFloat(numberOf(value));
  return { nan: "NaN", inf: "Infinity", "-inf": "-Infinity" }[text] ?? text;
}

function keyText(key: TemplateValue): Text {
  if (key instanceof Text) return key;
  if (key === null) return Text.trusted("null");
  if (typeof key === "boolean") return Text.trusted(String(key));
  if (isNumeric(key)) return Text.trusted(jsonNumber(key));
  throw new Error(`keys must be str, int, float, bool or None, not ${typeName(key)}`);
}

const NOT_ASCII = /[\u007f-\uffff]/g;

function writeString(text: Text, { ensureAscii }: JsonStyle, builder: TextBuilder): void {
  builder
    .add(Text.untrusted('"'))
    .add(text.map((stretch) => escaped(stretch, ensureAscii)))
    .add(Text.untrusted('"'));
}

function escaped(text: string, ensureAscii: boolean): string {
  const inner = JSON.stringify(text).slice(1, -1);
  return ensureAscii
    ? inner.replaceAll(NOT_ASCII, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)
    : inner;
}
