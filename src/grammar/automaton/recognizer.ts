// Checks a finished text against a grammar's network with the plainest form of Earley's algorithm. It shares the
// network with the automaton that made the masks, but none of its code: no tokens, byte classes, interned sets or
// caches.

import type { CompiledGrammar } from "./compiled-grammar.js";
import { type Network, NO_STATE, ROOT_RULE, type State } from "./network.js";

interface Item {
  readonly state: number;
  /** The position in the text at which its rule began; -1 for the root rule. */
  readonly origin: number;
  readonly count: number;
}

type Chart = Map<string, Item>;

/** The items that called a rule at one position of the text. */
type Calls = readonly Item[];
const NO_CALLS: Calls = [];

/** Whether a grammar accepts a finished text. */
export function recognizes({ automaton: { network } }: CompiledGrammar, text: Uint8Array): boolean {
  const calls: Calls[] = [];
  let kernel: readonly Item[] = [{ state: network.rule(network.root).start, origin: -1, count: 0 }];
  for (let place = 0; place <= text.length; place++) {
    const chart = completed(network, calls, place, kernel);
    const called = [...chart.values()].filter(({ state }) => network.states[state]?.kind === "call");
    calls.push(called.length === 0 ? NO_CALLS : called);
    if (place === text.length) return [...chart.values()].some((item) => isEnd(network, item));
    kernel = scan(network, chart, text[place] as number);
    if (kernel.length === 0) return false;
  }
  return false;
}

function isEnd(network: Network, { state: index, origin }: Item): boolean {
  const state = network.states[index] as State;
  return state.kind === "final" && state.rule === ROOT_RULE && origin === -1;
}

/** All items that are reached without reading a byte. */
function completed(network: Network, calls: readonly Calls[], place: number, kernel: readonly Item[]): Chart {
  const chart: Chart = new Map();
  const waiting: Item[] = [];
  const add = (item: Item): void => {
    const key = `${item.state} ${item.origin} ${item.count}`;
    if (chart.has(key)) return;
    chart.set(key, item);
    waiting.push(item);
  };
  for (const item of kernel) add(item);
  for (let item = waiting.pop(); item !== undefined; item = waiting.pop()) {
    for (const next of ahead(network, calls, place, item)) add(next);
  }
  return chart;
}

function ahead(network: Network, calls: readonly Calls[], place: number, item: Item): readonly Item[] {
  const { origin, count } = item;
  const state = network.states[item.state] as State;
  switch (state.kind) {
    case "split":
      return state.targets.map((target) => ({ state: target, origin, count }));
    case "call": {
      const { start, nullable } = network.rule(state.rule);
      const called: Item = { state: start, origin: place, count: 0 };
      return nullable ? [called, { state: state.next, origin, count }] : [called];
    }
    case "final":
      return origin < 0 || origin === place ? [] : callers(network, calls[origin] as Calls, state.rule);
    case "enter":
      return [{ state: state.next, origin, count: 0 }];
    case "loop":
      return [
        ...(count < state.max ? [{ state: state.body, origin, count }] : []),
        ...(count >= state.min ? [{ state: state.exit, origin, count: 0 }] : []),
      ];
    case "again":
      return [{ state: state.loop, origin, count: Math.min(count + 1, state.limit) }];
    case "measured":
      return state.exit !== NO_STATE && count >= state.measure.limits.min && count <= state.measure.limits.max
        ? [{ state: state.exit, origin, count: 0 }]
        : [];
    default:
      return [];
  }
}

/** The items that continue after a rule. */
function callers(network: Network, calls: Calls, rule: number): readonly Item[] {
  return calls.flatMap(({ state: index, origin, count }) => {
    const state = network.states[index] as State;
    return state.kind === "call" && state.rule === rule ? [{ state: state.next, origin, count }] : [];
  });
}

function scan(network: Network, chart: Chart, byte: number): readonly Item[] {
  const found: Item[] = [];
  for (const { state: index, origin, count } of chart.values()) {
    const state = network.states[index] as State;
    if (state.kind !== "bytes" && state.kind !== "measured") continue;
    const counted = state.kind === "measured" && state.counts ? count + 1 : count;
    if (state.kind === "measured" && counted > state.measure.limits.max) continue;
    for (let at = 0; at < state.edges.length; at += 3) {
      if (byte < (state.edges[at] as number) || byte > (state.edges[at + 1] as number)) continue;
      found.push({
        state: state.edges[at + 2] as number,
        origin,
        count: state.kind === "measured" ? Math.min(counted, state.measure.limit) : counted,
      });
    }
  }
  return found;
}
