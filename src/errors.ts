// Every error that this package throws on purpose: one base class, one class per domain, a literal code each. The
// code's prefix decides its class, so a part cannot throw another part's code. docs/errors.md lists all codes, and a
// test keeps the two in step. Messages read: where, expected, found, what to do.

/** Every code with the one sentence that `docs/errors.md` prints for it. */
export const ERROR_CODES = {
  GGUF_NOT_GGUF: "The file is not a GGUF; the message says what it is if its format is recognised.",
  GGUF_BIG_ENDIAN: "The file is a big-endian GGUF; only little-endian files are read.",
  GGUF_VERSION: "The GGUF version is not 2 or 3.",
  GGUF_TRUNCATED: "The file ends before something it declares, or has shrunk since it was opened.",
  GGUF_LIMIT: "A count or length in the header is larger than the named limit in src/gguf/limits.ts.",
  GGUF_KEY: "A metadata key is empty, too long, not valid, or appears twice.",
  GGUF_VALUE: "A metadata value has an unknown type, a wrong type or an invalid value.",
  GGUF_ALIGNMENT: "`general.alignment` is not a power of two within the limits.",
  GGUF_TENSOR_NAME: "A tensor name is empty, too long or appears twice.",
  GGUF_TENSOR_SHAPE: "A tensor's dimensions are invalid or do not fit its block type.",
  GGUF_TENSOR_TYPE: "A tensor has an unknown, removed or unsupported type id.",
  GGUF_TENSOR_OFFSET: "A tensor's data is misaligned, out of range or overlaps another tensor.",
  GGUF_TENSOR_NOT_FINITE: "A tensor decodes to NaN or infinity.",
  GGUF_SPLIT: "The parts of a split model do not belong together or one is missing.",
  GGUF_HYPERPARAMETER: "A hyper-parameter is missing, zero, negative or inconsistent with another.",
  GGUF_TOKENIZER: "The tokenizer arrays in the file are missing, of the wrong type or of different lengths.",
  FILE_NOT_FOUND: "The file or one of its parts does not exist.",
  FILE_UNREADABLE: "The file exists but cannot be opened or read.",
  FILE_WRITE: "A file could not be written; nothing was left half-written.",
  HUB_NAME: "A model's name is not of a known form: `hf:user/repo`, `https://…`, `ollama:name:tag` or a path.",
  HUB_NOT_FOUND: "The hub or the local cache has no such repository, branch, file or quantisation.",
  HUB_ACCESS: "The hub refused access: the model is private or gated, or the token is invalid.",
  HUB_RATE_LIMIT: "The hub answers too many requests (429), also after waiting.",
  HUB_UNAVAILABLE: "The hub cannot be reached, or failed several times in a row; a download resumes where it ended.",
  HUB_OFFLINE: "The model is not in the cache, and offline mode forbids downloads.",
  HUB_RESPONSE:
    "A server's answer is malformed, exceeds a limit or contradicts an earlier one; nothing of it was kept.",
  HUB_CHECKSUM: "A downloaded file does not have the checksum that the hub states; it was removed.",
  HUB_DISK_SPACE: "The disk has less free space than the download needs.",
  HUB_IN_USE: "Another process is downloading the model, so that it cannot be removed.",
  HUB_OLLAMA: "A model of Ollama's is not a plain GGUF of a supported family, or its manifest is damaged.",
  QUANT_UNSUPPORTED: "This package has no decoder or encoder for the block type.",
  QUANT_SIZE: "A byte range or element count does not fit the block type.",
  TENSOR_MISSING: "The model has no tensor of that name; similar names are listed if there are any.",
  TENSOR_BUDGET: "A tensor does not fit the device cache's budget.",
  TENSOR_LOAD: "Loading a tensor to the device failed; it may be tried again.",
  MODEL_ARCHITECTURE: "The model's architecture is not supported or cannot be detected.",
  MODEL_KIND:
    "The file is a GGUF, but not a language model: a LoRA adapter, a projector (mmproj), an importance matrix.",
  MODEL_UNSUPPORTED: "The model needs a feature that this architecture's descriptor does not implement.",
  MODEL_INVALID: "Tensors are missing or have the wrong shape; the message names the first problem, `more` the others.",
  BACKEND_UNKNOWN: "No backend of that name exists.",
  BACKEND_UNAVAILABLE:
    "The backend cannot run on this machine; the message says why. GPU backends use the GPU codes instead.",
  BACKEND_UNSUPPORTED: "The backend does not support an operation or a type of this model.",
  BACKEND_STEP: "A step's input is inconsistent: a row, position, block or token out of range.",
  BACKEND_MEMORY: "There is not enough memory for the weights, the KV cache or the scratch space.",
  BACKEND_NOT_FINITE: "A step produced NaN or infinite logits.",
  GPU_INITIALISATION:
    "The GPU's driver library is missing, is too old, lacks a required function or cannot start, or the card is not supported.",
  GPU_DEVICE_NOT_FOUND: "There is no GPU, no kernel driver for one, or none with the requested number or name.",
  GPU_OUT_OF_MEMORY: "The GPU's memory, or the host memory that it can access, is exhausted.",
  GPU_COPY: "A copy to, from or on the GPU failed.",
  GPU_LAUNCH: "A kernel or a graph of kernels could not be started.",
  GPU_KERNEL_LOAD: "The driver rejected a kernel's compiled module, or the module lacks the kernel.",
  GPU_COMPILE: "The run-time compiler is missing, rejected a kernel or crashed.",
  GPU_WRONG_RESULTS: "A kernel computes wrong results on this card, and so does every variant of it.",
  GPU_DEVICE_LOST: "The GPU stopped responding or faulted, and its memory is lost.",
  GPU_INTERNAL: "The GPU's driver rejected a call that should have succeeded.",
  TOKENIZER_MODEL: "The tokenizer model or pre-tokenizer named by the file is not supported.",
  TOKENIZER_TOKEN: "A token id is outside the vocabulary.",
  OPTION_UNKNOWN: "An option is not known; a similar one is named if there is one.",
  OPTION_VALUE: "An option's value is invalid.",
  CONTEXT_OVERFLOW: "The prompt does not fit the context.",
  CONTEXT_UNDERFLOW: "The text is shorter than one window of the perplexity computation.",
  SERVING_QUEUE_FULL: "The request queue is full; try again later.",
  SERVING_MODEL_UNKNOWN: "No model of that name is served.",
  SERVING_UNREACHABLE: "No server of this kind answers at an address.",
  SERVING_STOPPING: "The server is shutting down and accepts no new requests.",
  SERVING_TOO_LARGE: "The request can never fit the KV cache, even alone.",
  SERVING_REQUEST: "A request is invalid.",
  SERVING_UNSUPPORTED: "A request combines options that cannot be combined.",
  CHAT_TEMPLATE: "The chat template cannot be rendered with these messages; the template's own message is given.",
  CHAT_SCHEMA: "The schema of a reply cannot be turned into a JSON Schema, or the reply does not satisfy it.",
  CHAT_SESSION: "A session cannot continue: a reply is still being generated, or its saved state is damaged.",
  CHAT_LIMIT: "Rendering a chat took too long, used too much memory or produced too much text.",
  GRAMMAR_INVALID: "A grammar, schema or regular expression is invalid or not supported.",
  GRAMMAR_LIMIT: "Compiling or evaluating a grammar took too long or used too much memory.",
  PACKAGE_BUNDLED:
    "A bundler has separated the package's code from its other files; the message says how to configure it.",
  SYSTEM_LIMIT: "A limit of the operating system was reached: open files, memory or threads.",
  DISPOSED: "An object was used after it was disposed.",
} as const;

/** The code of an error, stable across versions; docs/errors.md lists all of them. */
export type ErrorCode = keyof typeof ERROR_CODES;
/** The error codes with a prefix: `ErrorCodeOf<"GGUF">`. */
export type ErrorCodeOf<Prefix extends string> = Extract<ErrorCode, `${Prefix}_${string}`>;

/** What an error has besides its code and message. */
export interface RocmForgeErrorOptions {
  readonly details?: Readonly<Record<string, unknown>>;
  readonly more?: readonly string[];
  readonly cause?: unknown;
}

/** The base class of every error that this package throws on purpose. */
export class RocmForgeError<Code extends ErrorCode = ErrorCode> extends Error {
  readonly code: Code;
  readonly details: Readonly<Record<string, unknown>>;
  /** Further problems, one sentence each; `message` contains only the first. */
  readonly more: readonly string[];

  constructor(code: Code, message: string, options: RocmForgeErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = new.target.name;
    this.code = code;
    this.details = options.details ?? {};
    this.more = options.more ?? [];
  }
}

/** The longest name or value that a message quotes in full. */
const MAX_SHOWN_CHARACTERS = 200;

/** What is wrong with a GGUF file: the field, what was expected and what was found. */
export interface GgufFinding {
  /** The field in the file's own spelling: `header.tensor_count`, `blk.0.attn_q.weight.offset`. */
  readonly field: string;
  readonly expected: string;
  readonly found: string;
  /** What the user can do if this is the wrong kind of file altogether; the message then omits the field. */
  readonly advice?: string;
}

/** The file is invalid. `details` always has `field`, `expected` and `found`. */
export class GgufError extends RocmForgeError<ErrorCodeOf<"GGUF">> {
  readonly finding: GgufFinding;

  constructor(code: ErrorCodeOf<"GGUF">, finding: GgufFinding, options: RocmForgeErrorOptions = {}) {
    const { field, expected, found, advice } = finding;
    const path = options.details?.["path"];
    const place = [...(typeof path === "string" ? [path] : []), ...(advice === undefined ? [shorten(field)] : [])]
      .map((part) => `${part}: `)
      .join("");
    super(
      code,
      `[gguf] ${place}expected ${expected}, found ${shorten(found)}${advice === undefined ? "" : `; ${advice}`}`,
      {
        ...options,
        details: { ...options.details, field, expected, found },
      },
    );
    this.finding = finding;
  }

  get field(): string {
    return this.finding.field;
  }

  get expected(): string {
    return this.finding.expected;
  }

  get found(): string {
    return this.finding.found;
  }
}

/** Shortens a name or value that comes from the file; `details` keeps it whole. */
function shorten(text: string): string {
  return text.length <= MAX_SHOWN_CHARACTERS ? text : `${text.slice(0, MAX_SHOWN_CHARACTERS)}…`;
}

/** A file cannot be found, read or written. `details.path` names it. */
export class FileError extends RocmForgeError<ErrorCodeOf<"FILE">> {}
/**
 * A model cannot be found on the hub or downloaded. `details` has `url` and `status` if a server's answer was the
 * reason.
 */
export class HubError extends RocmForgeError<ErrorCodeOf<"HUB">> {}
/** Bytes or values do not fit a block type, or a block type has no codec. */
export class QuantError extends RocmForgeError<ErrorCodeOf<"QUANT">> {}
/** A tensor is missing or could not be loaded to the device. */
export class TensorError extends RocmForgeError<ErrorCodeOf<"TENSOR">> {}
/** The file is valid, but the model in it is not supported or not complete. */
export class ModelError extends RocmForgeError<ErrorCodeOf<"MODEL">> {}
/** A backend is unknown, cannot run here, or failed in a step. */
export class BackendError extends RocmForgeError<ErrorCodeOf<"BACKEND">> {}
/**
 * A GPU driver, compiler or library failed. `details` always has `kind`, `reason` and `remedy`, and `call`, `number`
 * and `name` if a driver function reported the failure.
 */
export class GpuError extends RocmForgeError<ErrorCodeOf<"GPU">> {}
/** The file's tokenizer is not supported, or a token id is outside its vocabulary. */
export class TokenizerError extends RocmForgeError<ErrorCodeOf<"TOKENIZER">> {}
/** An option is unknown or has an invalid value. `details.option` names it. */
export class OptionError extends RocmForgeError<ErrorCodeOf<"OPTION">> {}
/** A prompt is too long, or a text too short, for the context length. */
export class ContextError extends RocmForgeError<ErrorCodeOf<"CONTEXT">> {}
/** A request cannot be served: the queue is full, the model is unknown, or the request is too large. */
export class ServingError extends RocmForgeError<ErrorCodeOf<"SERVING">> {}
/** A chat cannot be rendered by the model's template, or exceeds a limit. */
export class ChatError extends RocmForgeError<ErrorCodeOf<"CHAT">> {}
/** A schema, regular expression or grammar is invalid, not supported, or exceeds a limit. */
export class GrammarError extends RocmForgeError<ErrorCodeOf<"GRAMMAR">> {}

/** The package's own files cannot be found, because a bundler has separated its code from them. */
export class PackageError extends RocmForgeError<ErrorCodeOf<"PACKAGE">> {}
/** A limit of the operating system was reached. `details.reason` is the system's name for it, such as `EMFILE`. */
export class SystemError extends RocmForgeError<ErrorCodeOf<"SYSTEM">> {}

/** An object was used after it was disposed. */
export class DisposedError extends RocmForgeError<"DISPOSED"> {
  constructor(what: string) {
    super("DISPOSED", `${what} was used after it was disposed`, { details: { what } });
  }
}
