// Property names that a schema does not mention: strings that are not in a list. The rules are a tree of the names'
// characters, with an exit for every character that leads to none of them.

import { CharSet } from "../char-set.js";
import { choice, type Expression, sequence, set, text } from "../expression.js";
import { type JsonRules, PLAIN } from "./json-rules.js";

/** Names that share a longer prefix with a mentioned one are not generated, so that long names cost no more. */
const SHARED_CHARACTERS = 64;
const ASCII = PLAIN.intersection(CharSet.of([0, 0x7f]));
const BEYOND_ASCII = PLAIN.minus(ASCII);

interface Branch {
  /** Whether a name ends here. */
  isName: boolean;
  /** The next branches by character; undefined if the tree is cut off there. */
  readonly next: Map<string, Branch | undefined>;
}

/** Names without escapes, which would allow other spellings of a mentioned name. */
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
      // A character that needs an escape starts no other name, because names are written without escapes.
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
        // A large expression, and mostly the same.
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
