// Bounds on what untrusted chats, templates and models can make this part do, each with its reason.

/** The largest templates of published models have a tenth of it. */
export const MAX_TEMPLATE_CHARACTERS = 512 * 1024;
/** A million tokens of text, and of anything that a template makes on its way there. */
export const MAX_TEXT_CHARACTERS = 4 * 1024 * 1024;
/** Of one list in a template: a chat of more messages would not be one. */
export const MAX_LIST_ITEMS = 256 * 1024;
/** For one rendering; a long chat takes some milliseconds. */
export const RENDER_DEADLINE_MS = 2000;
/** Rendering stops itself at the first, so that V8, which ends more than the thread, never stops it at the second. */
export const RENDER_SOFT_HEAP_MB = 192;
export const RENDER_HEAP_MB = 512;
export const RENDER_THREADS = 2;
export const MAX_WAITING_RENDERINGS = 256;
/** Of rendered texts that are kept. */
export const MAX_CACHED_CHARACTERS = 8 * 1024 * 1024;
export const MAX_CACHED_TEXTS = 256;
/** Of a tool call; what is longer is text. */
export const MAX_CALL_CHARACTERS = 1024 * 1024;
/** Of JSON in a tool call: deeper than any schema that means something. */
export const MAX_CALL_DEPTH = 128;
/** Of a template's own words in an error. */
export const MAX_SHOWN_CHARACTERS = 500;
