// States that only lead on to another one are left out of a network: situations that are the same then look the same.

import { NO_STATE, type State } from "./network.js";

/** Without splits that lead to one state only. */
export function shortened(states: readonly State[]): readonly State[] {
  const resolved = new Int32Array(states.length).fill(NO_STATE);
  const resolve = (from: number): number => {
    let state = from;
    const path: number[] = [];
    for (;;) {
      const known = resolved[state] as number;
      const { kind, targets } = states[state] as { readonly kind: string; readonly targets?: readonly number[] };
      if (known !== NO_STATE) state = known;
      else if (kind === "split" && targets?.length === 1 && targets[0] !== state && !path.includes(state) && path.length < states.length) {
        path.push(state);
        state = targets[0] as number;
        continue;
      }
      for (const passed of path) resolved[passed] = state;
      return state;
    }
  };
  return states.map((state): State => {
    switch (state.kind) {
      case "bytes":
      case "measured":
        return { ...state, edges: state.edges.map((value, place) => (place % 3 === 2 ? resolve(value) : value)) };
      case "split":
        return { ...state, targets: [...new Set(state.targets.map(resolve))] };
      case "call":
      case "enter":
        return { ...state, next: resolve(state.next) };
      case "loop":
        return { ...state, body: resolve(state.body), exit: resolve(state.exit) };
      default:
        return state;
    }
  });
}
