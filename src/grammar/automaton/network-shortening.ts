// States that only lead on to another one are left out of a network: situations that are the same then look the same.

import type { State } from "./network.js";

/** In place, from a state on, and one more before; what these lead to is as it will stay. */
export function shorten(states: State[], [before, first]: readonly [number, number]): void {
  const resolve = (from: number): number => {
    let state = from;
    // A circle of such states leads nowhere, and stays.
    for (let steps = 0; steps < states.length; steps++) {
      const { kind, targets } = states[state] as { readonly kind: string; readonly targets?: readonly number[] };
      if (kind !== "split" || targets?.length !== 1) return state;
      state = targets[0] as number;
    }
    return from;
  };
  states[before] = shortened(states[before] as State, resolve);
  for (let index = first; index < states.length; index++) states[index] = shortened(states[index] as State, resolve);
}

function shortened(state: State, resolve: (state: number) => number): State {
  switch (state.kind) {
    case "bytes":
    case "measured":
      for (let at = 2; at < state.edges.length; at += 3) state.edges[at] = resolve(state.edges[at] as number);
      return state;
    case "split":
      return { kind: "split", targets: [...new Set(state.targets.map(resolve))] };
    case "call":
    case "enter":
      return { ...state, next: resolve(state.next) };
    case "loop":
      return { ...state, body: resolve(state.body), exit: resolve(state.exit) };
    default:
      return state;
  }
}
