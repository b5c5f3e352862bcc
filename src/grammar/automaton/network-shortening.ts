// Removes states that only lead to another state from a network, so that equal situations look equal.

import type { State } from "./network.js";

/** Shortens the states from `first` on, and `before`, in place; the states that they lead to are final. */
export function shorten(states: State[], [before, first]: readonly [number, number]): void {
  const resolve = (from: number): number => {
    let state = from;
    // A cycle of such states leads nowhere, and is kept.
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
