// Files in prompts: those that are text become text; all others are refused, because a reply that ignores what it was asked
// about would look like an answer.

import type { LanguageModelV4FilePart } from "@ai-sdk/provider";
import { UnsupportedFunctionalityError } from "./sdk-errors.js";

/** A file of a prompt or of a tool's result. */
type PromptFile = Pick<LanguageModelV4FilePart, "data" | "mediaType" | "filename">;

/** Types outside `text/` whose files are text, and the suffixes of structured syntaxes (RFC 6839). */
const TEXT_TYPES =
  /^(?:text(?:\/.*)?|application\/(?:json|jsonl|ndjson|xml|yaml|x-yaml|toml|sql|graphql|javascript|typescript|x-sh|x-ndjson)|[^;]*\+(?:json|xml|yaml))$/;

/** The text of a file, under its name if it has one; throws the SDK's UnsupportedFunctionalityError if it is not text. */
export function fileText(file: PromptFile, place: string): string {
  const text = contentsOf(file, place);
  return file.filename === undefined ? text : `${file.filename}:\n${text}`;
}

function contentsOf({ data, mediaType }: PromptFile, place: string): string {
  if (data.type === "text") return data.text;
  const type = mediaType.split(";")[0].trim().toLowerCase();
  if (!TEXT_TYPES.test(type)) throw unsupported(`${mediaType} files`, place);
  // The SDK downloads what an address refers to, because the models declare no addresses that they read themselves.
  if (data.type !== "data") throw unsupported(data.type === "url" ? "files by address" : "files by reference", place);
  return decoded(typeof data.data === "string" ? Buffer.from(data.data, "base64") : data.data, mediaType, place);
}

function decoded(bytes: Uint8Array, mediaType: string, place: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw unsupported(`${mediaType} files that are not UTF-8`, place);
  }
}

function unsupported(what: string, place: string): UnsupportedFunctionalityError {
  return new UnsupportedFunctionalityError(
    what,
    `[${place}] expected text or a text file, found ${what}, which this model cannot read; pass their contents as text`,
  );
}
