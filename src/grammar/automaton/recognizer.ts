// The check of a finished text: whether a grammar's network accepts it, by the plainest form of Earley's algorithm. It
// shares no code with the automaton that made the masks, and knows no tokens, classes of bytes, interned sets or caches.

import type { CompiledGrammar } from "./compiled-grammar.js";
import { type Network, NO_STATE, ROOT_RULE, type State } from "./network.js";

interface Item {
  readonly state: number;
  /** The place in the text where its rule began; -1 for the root rule. */
  readonly origin: number;
  readonly count: number;
}

type Chart = Map<string, Item>;

export function recognizes({ automaton: { network } }: CompiledGrammar, text: Uint8Array): boolean {
  const charts: Chart[] = [];
  let kernel: readonly Item[] = [{ state: network.rules[network.root]?.start as number, origin: -1, count: 0 }];
  for (let place = 0; place <= text.length; place++) {
    const chart: Chart = new Map();
    charts.push(chart);
    complete(network, charts, place, kernel);
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

/** Until nothing is new: what an item leads to without a byte. */
function complete(network: Network, charts: readonly Chart[], place: number, kernel: readonly Item[]): void {
  const chart = charts[place] as Chart;
  const waiting: Item[] = [];
  const add = (item: Item): void => {
    const key = `${item.state} ${item.origin} ${item.count}`;
    if (chart.has(key)) return;
    chart.set(key, item);
    waiting.push(item);
  };
  for (const item of kernel) add(item);
  for (let item = waiting.pop(); item !== undefined; item = waiting.pop()) {
    for (const next of ahead(network, charts, place, item)) add(next);
  }
}

function ahead(network: Network, charts: readonly Chart[], place: number, item: Item): readonly Item[] {
  const { origin, count } = item;
  const state = network.states[item.state] as State;
  switch (state.kind) {
    case "split":
      return state.targets.map((target) => ({ state: target, origin, count }));
    case "call": {
      const called: Item = { state: network.rules[state.rule]?.start as number, origin: place, count: 0 };
      return network.rules[state.rule]?.nullable === true ? [called, { state: state.next, origin, count }] : [called];
    }
    case "final":
      return origin < 0 || origin === place ? [] : callers(network, charts[origin] as Chart, state.rule);
    case "enter":
      return [{ state: state.next, origin, count: 0 }];
    case "loop":
      return [...(count < state.max ? [{ state: state.body, origin, count }] : []), ...(count >= state.min ? [{ state: state.exit, origin, count: 0 }] : [])];
    case "again":
      return [{ state: state.loop, origin, count: Math.min(count + 1, state.limit) }];
    case "measured":
      return state.exit !== NO_STATE && count >= state.measure.limits.min && count <= state.measure.limits.max ? [{ state: state.exit, origin, count: 0 }] : [];
    default:
      return [];
  }
}

/** Where the items that called a rule go on. */
function callers(network: Network, chart: Chart, rule: number): readonly Item[] {
  return [...chart.values()].flatMap(({ state: index, origin, count }) => {
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
      found.push({ state: state.edges[at + 2] as number, origin, count: state.kind === "measured" ? Math.min(counted, state.measure.limit) : counted });
    }
  }
  return found;
}
