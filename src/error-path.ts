// The same error with the file's name in it: the parts that judge metadata, tensors and tokenizers do not know which file
// they come from, and whoever opened the file does.

import { GgufError, ModelError, TokenizerError } from "./errors.js";

const PLACE = /^\[[^\]]*\] /;

/** Errors that are not about a file's content, or that name it already, come back as they are. */
export function withPath(path: string, error: unknown): unknown {
  if (
    !(error instanceof GgufError || error instanceof ModelError || error instanceof TokenizerError) ||
    "path" in error.details
  )
    return error;
  const options = {
    details: { ...error.details, path },
    more: error.more,
    ...(error.cause === undefined ? {} : { cause: error.cause }),
  };
  if (error instanceof GgufError) return new GgufError(error.code, error.finding, options);
  const place = PLACE.exec(error.message)?.[0] ?? "";
  const message = `${place}${path}: ${error.message.slice(place.length)}`;
  return error instanceof ModelError
    ? new ModelError(error.code, message, options)
    : new TokenizerError(error.code, message, options);
}
