// The classes of bytes that a grammar distinguishes, computed from its expressions before any state is made.

import { type CharSet, type CodeRange, utf8Sequences } from "../char-set.js";
import { controlBytes } from "../control-tokens.js";
import type { Expression } from "../expression.js";
import { partsOf } from "./expression-parts.js";
import type { ByteClasses } from "./network.js";

/** Most grammars use the same few sets. */
const knownSequences = new WeakMap<CharSet, readonly (readonly CodeRange[])[]>();

/** The UTF-8 forms of a set. */
export function sequencesOf(set: CharSet): readonly (readonly CodeRange[])[] {
  let sequences = knownSequences.get(set);
  if (sequences === undefined) knownSequences.set(set, (sequences = set.ranges.flatMap(utf8Sequences)));
  return sequences;
}

/**
 * The byte classes that all of a grammar's expressions distinguish together; transitions are stored per class instead
 * of per byte.
 */
export function byteClasses(expressions: Iterable<Expression>): ByteClasses {
  const borders = new Uint8Array(257);
  const seen = new Set<Expression>();
  const mark = (from: number, to: number): void => {
    borders[from] = 1;
    borders[to + 1] = 1;
  };
  const visit = (expression: Expression): void => {
    if (seen.has(expression)) return;
    seen.add(expression);
    switch (expression.kind) {
      case "text":
        for (const byte of Buffer.from(expression.text, "utf8")) mark(byte, byte);
        break;
      case "control":
        for (const byte of controlBytes(expression.token)) mark(byte, byte);
        break;
      case "set":
        for (const sequence of sequencesOf(expression.set)) for (const { from, to } of sequence) mark(from, to);
        break;
      case "automaton":
      case "measured": {
        const { classes } = expression.kind === "automaton" ? expression.dfa : expression.measured.dfa;
        for (let byte = 1; byte < 256; byte++) if (classes[byte] !== classes[byte - 1]) borders[byte] = 1;
        break;
      }
      default:
        for (const part of partsOf(expression)) visit(part);
    }
  };
  for (const expression of expressions) visit(expression);
  return classesBetween(borders);
}

/** Bytes between two borders have the same edges. */
function classesBetween(borders: Uint8Array): ByteClasses {
  const classes = new Uint8Array(256);
  const examples = [0];
  for (let byte = 1; byte < 256; byte++) {
    if (borders[byte] === 1) examples.push(byte);
    classes[byte] = examples.length - 1;
  }
  return { classes, count: examples.length, examples };
}
