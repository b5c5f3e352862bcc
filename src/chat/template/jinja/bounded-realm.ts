// Bounds what a template can allocate inside a render thread. V8's heap limit ends a thread that fills up gradually,
// but the whole process if one allocation goes far beyond it; so the few operations that make much out of little are
// replaced, in this thread, by ones that check first. Invariant: with texts and lists within the limits, no other
// operation can allocate more than V8 allows beyond its heap limit.

import { getHeapStatistics } from "node:v8";
import { collectGarbage } from "../../../worker/garbage.js";
import { MAX_LIST_ITEMS, MAX_TEXT_CHARACTERS, RENDER_SOFT_HEAP_MB } from "../../limits.js";

/**
 * A template exceeded a limit on memory, text length, list length or nesting; the rendering fails, its thread survives.
 */
export class RenderLimitError extends Error {}

const SOFT_HEAP_BYTES = RENDER_SOFT_HEAP_MB * 1024 * 1024;
/** Operations that allocate less do not check the heap. */
const SMALL_BYTES = 256 * 1024;
const BYTES_PER_ITEM = 64;

/**
 * Throws a `RenderLimitError` if the heap, plus `extraBytes` about to be allocated, exceeds its soft limit even after a
 * garbage collection.
 */
export function checkHeap(extraBytes = 0): void {
  const fits = (): boolean => getHeapStatistics().used_heap_size + extraBytes <= SOFT_HEAP_BYTES;
  if (fits()) return;
  // The used heap includes garbage that V8 has not collected yet.
  collectGarbage();
  if (fits()) return;
  throw new RenderLimitError(`needed more than ${RENDER_SOFT_HEAP_MB} MiB of memory`);
}

/**
 * Throws a `RenderLimitError` if a text of this length exceeds the limit, or does not fit into the heap; called before
 * the text is made.
 */
export function checkText(characters: number): void {
  if (characters > MAX_TEXT_CHARACTERS)
    throw new RenderLimitError(`made a text of more than ${MAX_TEXT_CHARACTERS} characters`);
  if (characters * 2 > SMALL_BYTES) checkHeap(characters * 2);
}

/**
 * Throws a `RenderLimitError` if a list of this length exceeds the limit, or does not fit into the heap; called before
 * the list is made.
 */
export function checkList(items: number, most = MAX_LIST_ITEMS): void {
  if (items > most) throw new RenderLimitError(`made a list of more than ${most} items`);
  if (items * BYTES_PER_ITEM > SMALL_BYTES) checkHeap(items * BYTES_PER_ITEM);
}

type Method = (this: unknown, ...args: unknown[]) => unknown;

function replaceMethod(owner: object, name: string, make: (original: Method) => Method): void {
  const original = Reflect.get(owner, name) as Method;
  Object.defineProperty(owner, name, { value: make(original), writable: true, configurable: true, enumerable: false });
}

/** Installs the bounds for good, in a thread that does nothing else. */
export function boundRealm(): void {
  replaceMethod(
    String.prototype,
    "repeat",
    (original) =>
      function repeat(this: unknown, times) {
        checkText(String(this).length * Number(times));
        return original.call(this, times);
      },
  );
  replaceMethod(
    Array.prototype,
    "join",
    (original) =>
      function join(this: unknown, separator) {
        const items = this as readonly unknown[];
        let characters = (separator === undefined ? 1 : String(separator).length) * items.length;
        for (const item of items) if (typeof item === "string") characters += item.length;
        checkText(characters);
        return original.call(this, separator);
      },
  );
  replaceMethod(
    JSON,
    "stringify",
    (original) =>
      function stringify(this: unknown, value, ...rest) {
        if (typeof value === "string") checkText(value.length);
        return original.call(this, value, ...rest);
      },
  );
  // A list of parts is short-lived, and may have one for each character, as in text[1:].
  replaceMethod(
    String.prototype,
    "split",
    (original) =>
      function split(this: unknown, separator, most) {
        if (most !== undefined) return original.call(this, separator, most);
        const parts = original.call(this, separator, MAX_LIST_ITEMS + 1) as unknown[];
        checkList(parts.length);
        return parts;
      },
  );
  replaceMethod(
    Array,
    "from",
    (original) =>
      function from(this: unknown, source, ...rest) {
        if (typeof source === "string") checkList(source.length, MAX_TEXT_CHARACTERS);
        return original.call(this, source, ...rest);
      },
  );
  replaceMethod(
    String.prototype,
    "replaceAll",
    (original) =>
      function replaceAll(this: unknown, pattern, replacement) {
        let characters = String(this).length;
        checkList(characters, MAX_TEXT_CHARACTERS);
        if (typeof replacement !== "function") return original.call(this, pattern, replacement);
        const count = (...args: unknown[]): string => {
          const text = String((replacement as Method)(...args));
          characters += text.length;
          if (characters > MAX_TEXT_CHARACTERS) checkText(characters);
          return text;
        };
        return original.call(this, pattern, count);
      },
  );
}
