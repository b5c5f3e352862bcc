// Builds a network from expressions, from the end of a text to its beginning: every expression is compiled for the
// state that follows it, so that the end of a rule continues there without a call (the tail of a list is a loop), and
// parts with the same continuation share their states.

import type { CodeRange } from "../char-set.js";
import { controlBytes } from "../control-tokens.js";
import type { Expression } from "../expression.js";
import { GRAMMAR_LIMITS, grammarInvalid } from "../limits.js";
import { byteClasses, sequencesOf } from "./byte-classes.js";
import { nonEmpty } from "./non-empty.js";
import { Measure } from "./measure.js";
import { type ByteClasses, type Network, NO_STATE, type Rule, type State } from "./network.js";
import { shorten } from "./network-shortening.js";
import { INLINE_WEIGHT, type RuleFacts, ruleFacts, weightOf } from "./rule-facts.js";
import { StateTable } from "./state-table.js";
import { textTree } from "./text-tree.js";

interface BuilderOptions {
  /** The grammar's name in error messages. */
  readonly place: string;
  /** Whether repetitions may use counters; without, each count is a state of its own. */
  readonly counters?: boolean;
  readonly maxStates?: number;
}

/** A rule at the end of another is compiled into it up to this weight. */
const TAIL_WEIGHT = 160;
/**
 * A rule that is used once is compiled into its caller up to this weight; larger ones are compiled when a text reaches
 * them.
 */
const SINGLE_WEIGHT = 48;
/** Repetitions are unrolled up to this many states, and counted beyond. */
const UNROLLED_STATES = 64;

interface Work {
  /** A split state whose targets are not known yet. */
  readonly state: number;
  readonly expression: Expression;
  readonly next: number;
  readonly counted: boolean;
}

type MutableSplit = { readonly kind: "split"; targets: number[] };

/**
 * Builds the network of a grammar. Only the root rule is compiled at once; others are compiled when a text first
 * reaches them.
 */
export function buildNetwork(
  bodies: ReadonlyMap<string, Expression>,
  root: Expression,
  options: BuilderOptions,
): Network {
  const builder = new NetworkBuilder(bodies, root, options);
  builder.rule(builder.root);
  return builder;
}

class NetworkBuilder implements Network {
  readonly root = 0;
  readonly classes: ByteClasses;
  readonly #bodies: ReadonlyMap<string, Expression>;
  readonly #facts: RuleFacts;
  readonly #counters: boolean;
  readonly #table: StateTable;
  readonly #rules: Rule[] = [];
  /** What is left to do for each rule that is not compiled yet. */
  readonly #pending = new Map<number, Work>();
  readonly #ruleIndices = new Map<string, number>();
  readonly #compiled = new Map<Expression, Map<number, number>>();
  readonly #inlined = new Map<string, number>();
  readonly #waiting: Work[] = [];

  constructor(
    bodies: ReadonlyMap<string, Expression>,
    root: Expression,
    { place, counters = true, maxStates = GRAMMAR_LIMITS.networkStates }: BuilderOptions,
  ) {
    this.#bodies = bodies;
    this.#facts = ruleFacts(bodies);
    this.#counters = counters;
    this.#table = new StateTable(place, maxStates);
    this.classes = byteClasses([root, ...bodies.values()]);
    if (!this.#facts.ends(root))
      throw grammarInvalid(
        place,
        "expected something that a text can satisfy, found a contradiction or endless recursion",
      );
    this.#callable(root);
  }

  get states(): readonly State[] {
    return this.#table.states;
  }

  rule(index: number): Rule {
    const work = this.#pending.get(index);
    if (work !== undefined) {
      this.#pending.delete(index);
      const first = this.#table.states.length;
      this.#waiting.push(work);
      for (let next = this.#waiting.pop(); next !== undefined; next = this.#waiting.pop()) {
        const start = this.#compile(next.expression, next.next, next.counted);
        if (start !== NO_STATE) (this.#table.states[next.state] as MutableSplit).targets.push(start);
      }
      shorten(this.#table.states, [work.state, first]);
    }
    return this.#rules[index] as Rule;
  }

  /** The number of a rule that can be called, for an expression. */
  #callable(expression: Expression): number {
    const rule = this.#rules.length;
    const state = this.#table.add({ kind: "split", targets: [] });
    this.#rules.push({ start: state, nullable: this.#facts.nullable(expression) });
    this.#pending.set(rule, { state, expression, next: this.#table.add({ kind: "final", rule }), counted: false });
    return rule;
  }

  #compile(expression: Expression, next: number, counted: boolean): number {
    // Parts with one or two states are not worth caching.
    const remembered =
      !counted && (expression.kind === "sequence" || expression.kind === "choice" || expression.kind === "repeat");
    if (!remembered) return this.#compileNew(expression, next, counted);
    let known = this.#compiled.get(expression);
    if (known === undefined) this.#compiled.set(expression, (known = new Map()));
    let state = known.get(next);
    if (state === undefined) known.set(next, (state = this.#compileNew(expression, next, counted)));
    return state;
  }

  #compileNew(expression: Expression, next: number, counted: boolean): number {
    switch (expression.kind) {
      case "text":
        return this.#table.text(Buffer.from(expression.text, "utf8"), next);
      case "control":
        return this.#table.text(controlBytes(expression.token), next);
      case "set":
        return this.#table.bytes(
          sequencesOf(expression.set).flatMap((sequence) => {
            const after = sequence
              .slice(1)
              .reduceRight((state, { from, to }) => this.#table.byte(from, to, state), next);
            const [{ from, to }] = sequence as [CodeRange];
            return [from, to, after];
          }),
        );
      case "rule":
        return this.#rule(expression.name, next, counted);
      case "sequence":
        if (!this.#facts.ends(expression)) return NO_STATE;
        return expression.parts.reduceRight((state, part) => this.#compile(part, state, counted), next);
      case "choice":
        return this.#choice(expression.options, next, counted);
      case "repeat":
        return this.#repeat(expression, next, counted);
      case "automaton":
        return this.#automaton(expression, next);
      case "measured":
        return counted ? this.#call(this.#callable(expression), next) : this.#measured(expression, next);
      default:
        return expression satisfies never;
    }
  }

  #choice(options: readonly Expression[], next: number, counted: boolean): number {
    const texts = options.filter((option) => option.kind === "text");
    const others = options
      .filter((option) => option.kind !== "text")
      .map((option) => this.#compile(option, next, counted));
    if (texts.length < 2)
      return this.#table.split([...others, ...texts.map((option) => this.#compile(option, next, counted))]);
    const tree = textTree(
      texts.map(({ text }) => Buffer.from(text, "utf8")),
      next,
      {
        chain: (bytes, state) => this.#table.text(bytes, state),
        branch: (edges) => this.#table.bytes(edges),
        either: (one, other) => this.#table.either(one, other),
      },
    );
    return this.#table.split([...others, tree]);
  }

  #call(rule: number, next: number): number {
    return this.#table.add({ kind: "call", rule, next });
  }

  #rule(name: string, next: number, counted: boolean): number {
    const body = this.#bodies.get(name) as Expression;
    if (!this.#facts.ends(body)) return NO_STATE;
    if (!counted && this.#isInlined(name, next)) {
      const key = `${name} ${next}`;
      let state = this.#inlined.get(key);
      if (state === undefined) {
        // Deferred: chains of rules may be longer than the stack is deep.
        this.#inlined.set(key, (state = this.#table.add({ kind: "split", targets: [] })));
        this.#waiting.push({ state, expression: body, next, counted });
      }
      return state;
    }
    let rule = this.#ruleIndices.get(name);
    if (rule === undefined) this.#ruleIndices.set(name, (rule = this.#callable(body)));
    return this.#call(rule, next);
  }

  #isInlined(name: string, next: number): boolean {
    const { recursive, uses, weight } = this.#facts;
    if ((this.#table.states[next] as State).kind === "final") return weight(name) <= TAIL_WEIGHT;
    return !recursive(name) && (weight(name) <= INLINE_WEIGHT || (uses(name) <= 1 && weight(name) <= SINGLE_WEIGHT));
  }

  #repeat({ part, min: least, max }: Expression & { readonly kind: "repeat" }, next: number, counted: boolean): number {
    if (!this.#facts.ends(part)) return least === 0 ? next : NO_STATE;
    const nullable = this.#facts.nullable(part);
    // An empty repetition counts, without a change.
    const min = nullable ? 0 : least;
    const copies = max === Infinity ? min : max;
    const unrolled = !this.#counters || copies <= 1 || copies * weightOf(part) <= UNROLLED_STATES;
    if (unrolled) return this.#unrolled(part, min, max, next, counted);
    const turn = nullable ? nonEmpty(part, this.#facts) : part;
    if (turn === undefined) return this.#unrolled(part, min, max, next, counted);
    if (counted) return this.#call(this.#callable({ kind: "repeat", part: turn, min, max }), next);
    return this.#counted(turn, min, max, next);
  }

  #unrolled(part: Expression, min: number, max: number, next: number, counted: boolean): number {
    let state = next;
    if (max === Infinity) {
      state = this.#table.add({ kind: "split", targets: [] });
      const body = this.#compile(part, state, counted);
      (this.#table.states[state] as MutableSplit).targets.push(next, ...(body === NO_STATE ? [] : [body]));
    }
    for (let copy = max === Infinity ? min : max; copy > 0; copy--) {
      const once = this.#compile(part, state, counted);
      state = copy > min ? this.#table.split([once, next]) : once;
    }
    return state;
  }

  #counted(part: Expression, min: number, max: number, next: number): number {
    const loop = this.#table.add({ kind: "split", targets: [] });
    const again = this.#table.add({ kind: "again", loop, limit: max === Infinity ? min : max, max });
    const body = this.#compile(part, again, true);
    this.#table.states[loop] = { kind: "loop", body, exit: next, min, max };
    return this.#table.add({ kind: "enter", next: loop });
  }

  #automaton({ dfa }: Expression & { readonly kind: "automaton" }, next: number): number {
    const first = this.#table.states.length;
    for (let state = 0; state < dfa.size; state++) this.#table.add({ kind: "split", targets: [] });
    for (let state = 0; state < dfa.size; state++) {
      const edges = dfa.edges(state).map((value, place) => (place % 3 === 2 ? first + value : value));
      const targets = [
        ...(edges.length > 0 ? [this.#table.add({ kind: "bytes", edges: Int32Array.from(edges) })] : []),
        ...(dfa.accepts(state) ? [next] : []),
      ];
      (this.#table.states[first + state] as MutableSplit).targets.push(...targets);
    }
    return first;
  }

  #measured({ measured }: Expression & { readonly kind: "measured" }, next: number): number {
    const { dfa, boundaries } = measured;
    const measure = Measure.of(measured);
    if (!measure.allows(0, 0)) return NO_STATE;
    const first = this.#table.states.length;
    for (let index = 0; index < dfa.size; index++) {
      const edges = Int32Array.from(dfa.edges(index).map((value, place) => (place % 3 === 2 ? first + value : value)));
      this.#table.add({
        kind: "measured",
        edges,
        counts: boundaries[index] === true,
        measure,
        index,
        exit: dfa.accepts(index) ? next : NO_STATE,
      });
    }
    return this.#table.add({ kind: "enter", next: first });
  }
}
