// One listener per abort signal, however many requests wait for it: a program that passes the same signal to thousands
// of requests gets no warning about a leak, and aborting it costs each request one call.

interface Listening {
  readonly callbacks: Set<() => void>;
  readonly listener: () => void;
}

const listening = new WeakMap<AbortSignal, Listening>();

/**
 * Calls `callback` once when the signal is aborted; call the returned function to stop listening. The signal must not
 * be aborted yet.
 */
export function onAbort(signal: AbortSignal, callback: () => void): () => void {
  const known = listening.get(signal) ?? listenTo(signal);
  known.callbacks.add(callback);
  return () => {
    known.callbacks.delete(callback);
    if (known.callbacks.size > 0) return;
    signal.removeEventListener("abort", known.listener);
    if (listening.get(signal) === known) listening.delete(signal);
  };
}

function listenTo(signal: AbortSignal): Listening {
  const callbacks = new Set<() => void>();
  const listener = (): void => {
    for (const callback of callbacks) callback();
  };
  const known = { callbacks, listener };
  listening.set(signal, known);
  signal.addEventListener("abort", listener, { once: true });
  return known;
}
