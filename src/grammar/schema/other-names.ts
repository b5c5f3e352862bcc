// Names of properties that a schema does not mention: strings that are none of a list. As rules they are a tree of the
// names' first characters, each with a way out for every character that leads to none of them.

import { CharSet } from "../char-set.js";
import { choice, type Expression, sequence, set, text } from "../expression.js";
import { type JsonRules, PLAIN } from "./json-rules.js";

/** A name that begins with more characters of a mentioned one than this is not written, so that a long name costs no more. */
const SHARED_CHARACTERS = 64;
const ASCII = PLAIN.intersection(CharSet.of([0, 0x7f]));
const BEYOND_ASCII = PLAIN.minus(ASCII);

interface Branch {
  /** A name ends here. */
  isName: boolean;
  /** Undefined where the tree is cut. */
  readonly next: Map<string, Branch | undefined>;
}

/** Without escapes, with which a name could be spelled another way. */
export function otherNames(json: JsonRules, names: readonly string[], place: string): Expression {
  const { rules } = json;
  const free = json.once("name", "", () => {
    const rest = rules.reserve("name");
    rules.define(rest, choice(text('"'), sequence(set(PLAIN), rest)));
    return rest;
  });
  const beyondAscii = json.once("wide", "", () => sequence(set(BEYOND_ASCII), free));
  const first = rules.reserve("name");
  const waiting = [{ rule: first, branch: tree(json, names, place) }];
  for (let now = waiting.pop(); now !== undefined; now = waiting.pop()) {
    const { next, isName } = now.branch;
    const taken = CharSet.ofText([...next.keys()].join(""));
    const onwards = [...next].flatMap(([character, branch]) => {
      // What has to be escaped begins no other name: those are written without.
      if (branch === undefined || !PLAIN.has(character.codePointAt(0) as number)) return [];
      const rule = rules.reserve("name");
      waiting.push({ rule, branch });
      return [sequence(text(character), rule)];
    });
    rules.define(
      now.rule,
      choice(
        ...(isName ? [] : [text('"')]),
        sequence(set(ASCII.minus(taken)), free),
        // Long to print, and mostly the same.
        BEYOND_ASCII.intersection(taken).empty ? beyondAscii : sequence(set(BEYOND_ASCII.minus(taken)), free),
        ...onwards,
      ),
    );
  }
  return sequence(text('"'), first);
}

function tree(json: JsonRules, names: readonly string[], place: string): Branch {
  const root: Branch = { isName: false, next: new Map() };
  for (const name of names) {
    let branch: Branch | undefined = root;
    let length = 0;
    for (const character of name) {
      if (length++ === SHARED_CHARACTERS) {
        branch.next.set(character, undefined);
        branch = undefined;
        break;
      }
      let next: Branch | undefined = branch.next.get(character);
      if (next === undefined) {
        json.budget.step(place);
        branch.next.set(character, (next = { isName: false, next: new Map() }));
      }
      branch = next;
    }
    if (branch !== undefined) branch.isName = true;
  }
  return root;
}
