// Every bound on what an untrusted GGUF file may ask for, with its reason. All are checked before anything that
// the file's own numbers size is allocated, so memory and time for a header are bounded by these constants and by
// the bytes that are really there. A file past one of them is refused with GGUF_LIMIT or the field's own code.

/** The whole header. The largest vocabularies known (262,144 tokens, 514,906 merges) need about 20 MB. */
export const MAX_HEADER_BYTES = 256 * 1024 * 1024;
/** Metadata keys. Real files have 20 to 100. */
export const MAX_METADATA_COUNT = 65_536;
/** Tensors in one part. Real models have up to about 3,000; unmerged mixtures of experts about 20,000. */
export const MAX_TENSOR_COUNT = 65_536;
/** The specification's own bound: 2^16 - 1. */
export const MAX_KEY_BYTES = 65_535;
/** The specification's own bound, and ggml's buffer for a name. */
export const MAX_TENSOR_NAME_BYTES = 64;
/** One string. Chat templates, the longest strings in real files, stay under 100 kB. */
export const MAX_STRING_BYTES = 4 * 1024 * 1024;
/** Keys and string values of all parts together: they are decoded at open, so they are what an open costs in memory. */
export const MAX_DECODED_BYTES = 16 * 1024 * 1024;
/** Elements of one array of numbers: a whole character map in bytes. */
export const MAX_ARRAY_ELEMENTS = 16 * 1024 * 1024;
/** Strings in one array: twice the largest merge list known (514,906), because each becomes an object when decoded. */
export const MAX_STRING_ELEMENTS = 1024 * 1024;
/** Arrays inside arrays. No known writer nests at all, but the format allows it. */
export const MAX_ARRAY_DEPTH = 3;
/** Inner arrays in a whole model, because each becomes an object at open. */
export const MAX_NESTED_ARRAYS = 16_384;
/** ggml tensors have one to four dimensions. */
export const MAX_DIMENSIONS = 4;
/** The specification: a multiple of 8, so that no element of a tensor straddles its natural alignment. */
export const MIN_ALIGNMENT = 8;
/** The largest page size of any platform; more could only waste space or overflow the padding. */
export const MAX_ALIGNMENT = 65_536;
/** The specification's value for files without `general.alignment`. */
export const DEFAULT_ALIGNMENT = 32;
/** Parts of a split model: each holds a file descriptor, of which a process has 1,024 by default. */
export const MAX_PARTS = 512;
/** One view of a mapping. V8 of Node 20 aborts the process on array buffers above 4 GiB. */
export const MAX_VIEW_BYTES = 2 ** 32;

/** Magic, version and the two counts. */
export const FIXED_HEADER_BYTES = 24;
/** Key length, one key byte, value type, one value byte. */
export const MIN_METADATA_BYTES = 14;
/** Name length, one name byte, dimension count, one dimension, type, offset. */
export const MIN_TENSOR_INFO_BYTES = 33;
/** A string's length field, which even an empty string has. */
export const MIN_STRING_BYTES = 8;
/** An inner array's element type and count, which even an empty one has. */
export const MIN_ARRAY_BYTES = 12;
