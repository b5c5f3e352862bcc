// Watches a stream of the server while a view is shown and the page is visible: a stream that is not looked at is closed,
// so that it costs the server nothing. Reconnects after a failure.

import { useEffect, useState } from "preact/hooks";

const RETRY_MS = 2000;

/** The latest value of a stream, and whether it is connected. */
export function useWatch<Value>(
  open: (signal: AbortSignal) => AsyncIterable<Value>,
  key: string,
): { readonly value: Value | undefined; readonly problem: string | undefined } {
  const [value, setValue] = useState<Value>();
  const [problem, setProblem] = useState<string>();
  useEffect(() => {
    setValue(undefined);
    let controller: AbortController | undefined;
    const watch = async (): Promise<void> => {
      controller = new AbortController();
      const { signal } = controller;
      while (!signal.aborted) {
        try {
          for await (const next of open(signal)) {
            setValue(() => next);
            setProblem(undefined);
          }
        } catch (error) {
          if (!signal.aborted) setProblem(error instanceof Error ? error.message : String(error));
        }
        if (!signal.aborted) await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    };
    const onVisibility = (): void => {
      controller?.abort();
      controller = undefined;
      if (!document.hidden) void watch();
    };
    onVisibility();
    document.addEventListener("visibilitychange", onVisibility);
    return () => {
      document.removeEventListener("visibilitychange", onVisibility);
      controller?.abort();
    };
  }, [key]);
  return { value, problem };
}
