// A formula in TeX as MathML, which browsers draw themselves. The library is loaded with the first formula; until then, and
// for TeX that it cannot read, the source is shown.

import { useLayoutEffect, useRef } from "preact/hooks";

type Render = (tex: string, place: HTMLElement, options: object) => void;

/** Longer sources are hardly formulas, and would make typing wait. */
const MAX_CHARACTERS = 4000;

let renderer: Render | undefined;

async function loadRenderer(): Promise<void> {
  const { default: temml } = await import("temml");
  renderer = (...parameters) => temml.render(...parameters);
}

/** A formula. */
export function Formula({ tex, isBlock }: { readonly tex: string; readonly isBlock: boolean }) {
  const place = useRef<HTMLSpanElement>(null);
  useLayoutEffect(() => {
    const draw = (): void => {
      if (place.current !== null) drawFormula(tex, place.current, isBlock);
    };
    draw();
    if (renderer !== undefined) return undefined;
    let isCurrent = true;
    void loadRenderer().then(() => isCurrent && draw());
    return () => void (isCurrent = false);
  }, [tex, isBlock]);
  return <span class={isBlock ? "formula block" : "formula"} ref={place} />;
}

function drawFormula(tex: string, place: HTMLElement, displayMode: boolean): void {
  place.textContent = tex;
  if (tex.length > MAX_CHARACTERS) return;
  try {
    renderer?.(tex, place, { displayMode, throwOnError: true, maxExpand: 100 });
  } catch {
    place.textContent = tex;
  }
}
