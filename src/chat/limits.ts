// Limits on what untrusted chats, templates and models can make this part do, each with its reason.

/** Characters of a template; the largest of published models have a tenth of it. */
export const MAX_TEMPLATE_CHARACTERS = 512 * 1024;
/** Characters of a rendered text, about a million tokens, and of any text that a template makes on the way. */
export const MAX_TEXT_CHARACTERS = 4 * 1024 * 1024;
/** Items of one list in a template, more than any chat has messages. */
export const MAX_LIST_ITEMS = 256 * 1024;
/** Time for one rendering; a long chat takes a few milliseconds. */
export const RENDER_DEADLINE_MS = 2000;
/**
 * Rendering stops itself at the soft limit, so that V8, which would end more than the thread, never has to enforce the
 * hard one.
 */
export const RENDER_SOFT_HEAP_MB = 192;
/** Hard limit on the heap of a render thread. */
export const RENDER_HEAP_MB = 512;
/** Render threads, for all models together. */
export const RENDER_THREADS = 2;
/** Renderings that may wait. */
export const MAX_WAITING_RENDERINGS = 256;
/** Characters of all rendered texts in the cache. */
export const MAX_CACHED_CHARACTERS = 8 * 1024 * 1024;
/** Rendered texts in the cache. */
export const MAX_CACHED_TEXTS = 256;
/** Characters of a tool call; a longer one is treated as text. */
export const MAX_CALL_CHARACTERS = 1024 * 1024;
/** Nesting of the JSON in a tool call, deeper than any useful schema. */
export const MAX_CALL_DEPTH = 128;
/** Characters of a template's own message in an error. */
export const MAX_SHOWN_CHARACTERS = 500;
