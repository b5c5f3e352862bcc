// Errors as clients get them: a status, a type, a code, and the field at fault, in OpenAI's form, in Anthropic's under
// /v1/messages, or in Ollama's under /api. Invariant: an internal error tells the client nothing else; the log has the details under the
// request's id.

import { FileError, GgufError, RocmForgeError, type ErrorCode } from "../../errors.js";

/** The parts of an error besides its message. */
interface RequestErrorOptions {
  readonly status: number;
  readonly code: string;
  /** The field at fault: `messages[0].role`. */
  readonly param?: string;
  readonly retryAfterMs?: number;
  /** `error.details` in Anthropic's form, by which its clients decide how to go on. */
  readonly details?: Readonly<Record<string, unknown>> | undefined;
  readonly cause?: unknown;
}

/** A request that fails; the message is for the client. */
export class RequestError extends Error {
  readonly status: number;
  readonly code: string;
  readonly param: string | undefined;
  readonly retryAfterMs: number | undefined;
  readonly details: Readonly<Record<string, unknown>> | undefined;

  constructor(message: string, { status, code, param, retryAfterMs, details, cause }: RequestErrorOptions) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = "RequestError";
    this.status = status;
    this.code = code;
    this.param = param;
    this.retryAfterMs = retryAfterMs;
    this.details = details;
  }

  /** In whole seconds, for the header Retry-After. */
  get retryAfterSeconds(): number | undefined {
    return this.retryAfterMs === undefined ? undefined : Math.max(1, Math.ceil(this.retryAfterMs / 1000));
  }
}

/** Refuses the value of a field. */
export function refuseField(param: string, expectation: string, found: string): never {
  throw new RequestError(`[${param}] expected ${expectation}, found ${found}`, {
    status: 400,
    code: "invalid_value",
    param,
  });
}

const DEFAULT_RETRY_AFTER_MS = 1000;
/** Longer, because a model has to be loaded again or memory has to become free. */
const LONG_RETRY_AFTER_MS = 10_000;

interface ErrorResponse {
  readonly status: number;
  readonly code: string;
  readonly retryAfterMs?: number;
  /** Replaces the error's message if that is about internals of the server. */
  readonly message?: string;
}

const LIMIT_EXCEEDED: ErrorResponse = { status: 400, code: "limit_exceeded" };
const CONTEXT_EXCEEDED: ErrorResponse = { status: 400, code: "context_length_exceeded" };
const INVALID_VALUE: ErrorResponse = { status: 400, code: "invalid_value" };
const NO_MEMORY: ErrorResponse = {
  status: 503,
  code: "out_of_memory",
  retryAfterMs: LONG_RETRY_AFTER_MS,
  message: "[server] there is not enough memory for this request at the moment; try again later",
};
const DEVICE_LOST: ErrorResponse = {
  status: 503,
  code: "device_lost",
  retryAfterMs: LONG_RETRY_AFTER_MS,
  message: "[server] the GPU was lost; try again later",
};

/** The errors of lower layers that a client can do something about; all others are status 500. */
const RESPONSES: Partial<Record<ErrorCode, ErrorResponse>> = {
  SERVING_QUEUE_FULL: { status: 429, code: "rate_limit_exceeded", retryAfterMs: DEFAULT_RETRY_AFTER_MS },
  SERVING_MODEL_UNKNOWN: { status: 404, code: "model_not_found" },
  SERVING_STOPPING: { status: 503, code: "server_stopping", retryAfterMs: DEFAULT_RETRY_AFTER_MS },
  SERVING_TOO_LARGE: CONTEXT_EXCEEDED,
  SERVING_REQUEST: INVALID_VALUE,
  SERVING_UNSUPPORTED: { status: 400, code: "unsupported_parameter" },
  CONTEXT_OVERFLOW: CONTEXT_EXCEEDED,
  CHAT_TEMPLATE: { status: 400, code: "chat_template" },
  CHAT_LIMIT: LIMIT_EXCEEDED,
  GRAMMAR_INVALID: { status: 400, code: "invalid_grammar" },
  GRAMMAR_LIMIT: LIMIT_EXCEEDED,
  OPTION_VALUE: INVALID_VALUE,
  TOKENIZER_TOKEN: INVALID_VALUE,
  BACKEND_MEMORY: NO_MEMORY,
  GPU_OUT_OF_MEMORY: NO_MEMORY,
  TENSOR_BUDGET: NO_MEMORY,
  GPU_DEVICE_LOST: DEVICE_LOST,
};

/** A model file that cannot be read; its path is not shown to clients. */
function damagedFile({ code }: RocmForgeError): ErrorResponse {
  return {
    status: 503,
    code: "model_unavailable",
    retryAfterMs: LONG_RETRY_AFTER_MS,
    message: `[model] the model file cannot be read (${code}): it is damaged, or was changed while it was served; try again when it is restored`,
  };
}

/** Errors of the framework: its status is kept, its message replaced. */
const FRAMEWORK_RESPONSES: Readonly<Record<string, { readonly code: string; readonly message: string }>> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: {
    code: "unsupported_media_type",
    message: "[content-type] expected application/json; send the header Content-Type: application/json",
  },
  FST_ERR_CTP_BODY_TOO_LARGE: {
    code: "request_too_large",
    message: "[body] the request body is larger than this server accepts",
  },
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: {
    code: "invalid_body",
    message: "[body] the length of the body does not match Content-Length",
  },
  FST_ERR_CTP_EMPTY_JSON_BODY: { code: "invalid_body", message: "[body] expected a JSON object, found nothing" },
  FST_ERR_BAD_URL: { code: "invalid_url", message: "[url] the path is not valid" },
};

/** The names that an API has for the fields of the library's requests. */
export type FieldNames = Readonly<Record<string, string>>;

/** Names that all APIs here share. */
const COMMON_FIELD_NAMES: FieldNames = { toolChoice: "tool_choice", logitBias: "logit_bias" };

/** Codes of errors whose `details.field` names the field at fault, which also begins their message: `[field] …`. */
const FIELD_ERRORS: ReadonlySet<string> = new Set<ErrorCode>([
  "SERVING_REQUEST",
  "SERVING_UNSUPPORTED",
  "CONTEXT_OVERFLOW",
]);

/** The field at fault by the API's name for it, and the message with that name. */
function namedField({ code, details, message }: RocmForgeError, names: FieldNames) {
  const { field } = details;
  if (!FIELD_ERRORS.has(code) || typeof field !== "string") return { message };
  const param = names[field] ?? COMMON_FIELD_NAMES[field] ?? field;
  return { message: message.replace(`[${field}]`, `[${param}]`), param };
}

/** Converts any error to one for the client. */
export function toRequestError(error: unknown, fieldNames: FieldNames = {}): RequestError {
  if (error instanceof RequestError) return error;
  if (error instanceof RocmForgeError) {
    const response =
      RESPONSES[error.code as ErrorCode] ??
      (error instanceof GgufError || error instanceof FileError ? damagedFile(error) : undefined);
    if (response !== undefined) {
      const asked = error.details["retryAfterMs"];
      const retryAfterMs =
        response.retryAfterMs !== undefined && typeof asked === "number" && asked >= 0 ? asked : response.retryAfterMs;
      const { message, ...param } = namedField(error, fieldNames);
      return new RequestError(response.message ?? message, {
        ...response,
        ...param,
        ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
        cause: error,
      });
    }
  }
  const framework = frameworkError(error);
  if (framework !== undefined) return framework;
  return new RequestError("[server] internal error; the server's log has the details under the request's id", {
    status: 500,
    code: "internal_error",
    cause: error,
  });
}

function frameworkError(error: unknown): RequestError | undefined {
  if (!(error instanceof Error)) return undefined;
  const { code, statusCode } = error as { code?: unknown; statusCode?: unknown };
  if (typeof code !== "string" || !code.startsWith("FST_") || typeof statusCode !== "number") return undefined;
  if (statusCode < 400 || statusCode >= 500) return undefined;
  const known = FRAMEWORK_RESPONSES[code] ?? { code: "invalid_request", message: `[request] ${error.message}` };
  return new RequestError(known.message, { status: statusCode, code: known.code, cause: error });
}

const INVALID_REQUEST = "invalid_request_error";

/** The body of an error in OpenAI's form. */
interface OpenAiErrorBody {
  readonly error: {
    readonly message: string;
    readonly type: string;
    readonly param: string | null;
    readonly code: string;
  };
}

/** An error in OpenAI's form. */
export function openAiErrorBody(error: RequestError): OpenAiErrorBody {
  return { error: { message: error.message, type: openAiType(error), param: error.param ?? null, code: error.code } };
}

/** The error types of the APIs for statuses that are neither a plain client error nor a plain server error. */
const TYPES: Readonly<Record<number, { readonly openAi?: string; readonly anthropic: string }>> = {
  401: { openAi: "authentication_error", anthropic: "authentication_error" },
  403: { openAi: "permission_error", anthropic: "permission_error" },
  404: { anthropic: "not_found_error" },
  413: { anthropic: "request_too_large" },
  429: { openAi: "rate_limit_error", anthropic: "rate_limit_error" },
  503: { openAi: "service_unavailable_error", anthropic: "overloaded_error" },
};

function openAiType({ status }: RequestError): string {
  return TYPES[status]?.openAi ?? (status >= 500 ? "server_error" : INVALID_REQUEST);
}

/** The body of an error in Anthropic's form. */
interface AnthropicErrorBody {
  readonly type: "error";
  readonly error: {
    readonly type: string;
    readonly message: string;
    readonly details?: Readonly<Record<string, unknown>>;
  };
  readonly request_id: string | null;
}

/** An error in Anthropic's form. */
export function anthropicErrorBody(error: RequestError, requestId: string | null): AnthropicErrorBody {
  const { message, details } = error;
  return {
    type: "error",
    error: { type: anthropicType(error), message, ...(details === undefined ? {} : { details }) },
    request_id: requestId,
  };
}

function anthropicType({ status }: RequestError): string {
  return TYPES[status]?.anthropic ?? (status >= 500 ? "api_error" : INVALID_REQUEST);
}

/** Whether errors under this URL have Anthropic's form; an error may occur before a route is found. */
export function speaksAnthropic(url: string | undefined): boolean {
  return /^\/v1\/messages(?:[/?]|$)/.test(url ?? "");
}

/** The body of an error in Ollama's form. */
interface OllamaErrorBody {
  readonly error: string;
}

/** An error in Ollama's form. Its clients recognise an unknown model by these words. */
export function ollamaErrorBody({ code, message }: RequestError): OllamaErrorBody {
  return { error: code === "model_not_found" ? `model not found: ${message}` : message };
}

/** Whether errors under this URL have Ollama's form; an error may occur before a route is found. */
export function speaksOllama(url: string | undefined): boolean {
  return /^\/api(?:[/?]|$)/.test(url ?? "");
}

/** An error in the form of the API that the URL belongs to. */
export function errorBody(
  error: RequestError,
  url: string | undefined,
  requestId: string,
): OpenAiErrorBody | AnthropicErrorBody | OllamaErrorBody {
  if (speaksOllama(url)) return ollamaErrorBody(error);
  return speaksAnthropic(url) ? anthropicErrorBody(error, requestId) : openAiErrorBody(error);
}
