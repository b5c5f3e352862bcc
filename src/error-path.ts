// Adds the file's path to an error: the parts that check metadata, tensors and tokenizers do not know which file they
// are reading, but the code that opened the file does.

import { GgufError, ModelError, TokenizerError } from "./errors.js";

const PLACE = /^\[[^\]]*\] /;

/** Returns errors unchanged if they are not about a file's content or already name the file. */
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
