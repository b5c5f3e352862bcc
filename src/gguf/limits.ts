// Every limit on what an untrusted GGUF file may ask for, with its reason. All are checked before anything is allocated
// whose size the file decides, so memory and time for a header are bounded by these constants and by the bytes in the
// file. A file that exceeds one of them is refused with GGUF_LIMIT or the field's own code.

/**
 * The most bytes of a whole header. The largest vocabularies known (262,144 tokens, 514,906 merges) need about 20 MB.
 */
export const MAX_HEADER_BYTES = 256 * 1024 * 1024;
/** The most metadata keys. Real files have 20 to 100. */
export const MAX_METADATA_COUNT = 65_536;
/** The most tensors in one part. Real models have up to about 3,000; unmerged mixtures of experts about 20,000. */
export const MAX_TENSOR_COUNT = 65_536;
/** The longest metadata key, by the specification: 2^16 - 1. */
export const MAX_KEY_BYTES = 65_535;
/** The longest tensor name, by the specification and ggml's buffer for a name. */
export const MAX_TENSOR_NAME_BYTES = 64;
/** The longest string. Chat templates, the longest strings in real files, stay under 100 kB. */
export const MAX_STRING_BYTES = 4 * 1024 * 1024;
/**
 * The most bytes of keys and string values of all parts together: they are decoded when the file is opened, and
 * determine what opening costs in memory.
 */
export const MAX_DECODED_BYTES = 16 * 1024 * 1024;
/** The most elements of one numeric array: room for a whole character map in bytes. */
export const MAX_ARRAY_ELEMENTS = 16 * 1024 * 1024;
/**
 * The most strings in one array: twice the largest merge list known (514,906), because each becomes an object when
 * decoded.
 */
export const MAX_STRING_ELEMENTS = 1024 * 1024;
/** The deepest nesting of arrays. No known writer nests arrays, but the format allows it. */
export const MAX_ARRAY_DEPTH = 3;
/** The most nested arrays in a whole model, because each becomes an object when the file is opened. */
export const MAX_NESTED_ARRAYS = 16_384;
/** The most dimensions of a tensor, as in ggml. */
export const MAX_DIMENSIONS = 4;
/**
 * The smallest alignment, by the specification: a multiple of 8, so that every element of a tensor is naturally
 * aligned.
 */
export const MIN_ALIGNMENT = 8;
/**
 * The largest alignment: the largest page size of any platform. More could only waste space or overflow the padding.
 */
export const MAX_ALIGNMENT = 65_536;
/** The alignment of files without `general.alignment`, by the specification. */
export const DEFAULT_ALIGNMENT = 32;
/** The most parts of a split model: each holds a file descriptor, of which a process has 1,024 by default. */
export const MAX_PARTS = 512;
/** The largest view of a mapping. V8 of Node 20 aborts the process on array buffers above 4 GiB. */
export const MAX_VIEW_BYTES = 2 ** 32;

/** The size of magic, version and the two counts. */
export const FIXED_HEADER_BYTES = 24;
/** The smallest metadata entry: key length, one key byte, value type, one value byte. */
export const MIN_METADATA_BYTES = 14;
/** The smallest index entry: name length, one name byte, dimension count, one dimension, type, offset. */
export const MIN_TENSOR_INFO_BYTES = 33;
/** The smallest string: its length field. */
export const MIN_STRING_BYTES = 8;
/** The smallest nested array: its element type and count. */
export const MIN_ARRAY_BYTES = 12;
