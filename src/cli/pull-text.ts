// How a download and what is known before it are printed.

import type { ModelPreview, PullProgress } from "../hub/pull-types.js";
import { countOf, formatBytes, formatDuration, formatShare, printable } from "./format.js";
import { inCommandLineWords } from "./option-words.js";

const MAX_TYPES = 4;

/** A download's progress in one line, without the elapsed time. */
export function describePull(progress: PullProgress): string {
  const { phase, doneBytes, totalBytes, doneFiles, totalFiles, bytesPerSecond, remainingMs } = progress;
  const model = printable(progress.model);
  const amount = totalBytes === 0 ? "" : `, ${formatBytes(doneBytes)} of ${formatBytes(totalBytes)}`;
  switch (phase) {
    case "resolving":
      return `looking for ${model}`;
    case "inspecting":
      return `reading the header of ${model}`;
    case "waiting":
      return `waiting for another process that downloads ${model}${amount}`;
    case "verifying":
      return `comparing the checksum of ${model}`;
    case "downloading": {
      const share = totalBytes === 0 ? "" : ` (${formatShare(doneBytes / totalBytes)})`;
      const parts = totalFiles > 1 ? `, ${doneFiles} of ${countOf(totalFiles, "file")}` : "";
      const rate = bytesPerSecond === 0 ? "" : `, ${formatBytes(bytesPerSecond)}/s`;
      const left = remainingMs === undefined ? "" : `, ${formatDuration(remainingMs)} left`;
      return `downloading ${model}${amount}${share}${parts}${rate}${left}`;
    }
    default:
      return phase satisfies never;
  }
}

/**
 * What is known of a model before the download, in two lines. Why it is not supported is said only if it is downloaded
 * nevertheless: otherwise that is the command's error.
 */
export function describePreview(preview: ModelPreview, isForced: boolean): string {
  const { name, architecture, blockTypes, sizeBytes, missingBytes, contextLength, memory, problem } = preview;
  const types = blockTypes.slice(0, MAX_TYPES).map((type) => type.name);
  const context = contextLength === undefined ? "" : `, context length ${contextLength}`;
  const missing = missingBytes === sizeBytes ? "" : `, ${formatBytes(missingBytes)} of it to download`;
  const first = `${printable(name)}: ${printable(architecture ?? "unknown family")}, ${types.join(", ")}${context}, ${formatBytes(sizeBytes)}${missing}`;
  if (memory === undefined)
    return isForced && problem !== undefined
      ? `${first}\ndoes not run here: ${printable(inCommandLineWords(problem))}`
      : first;
  const { backend, neededBytes, weightBytes, kvCacheBytes, tokens, availableBytes, fits } = memory;
  const verdict = fits ? "fits" : "does not fit";
  return `${first}\n${verdict} on ${backend}: ${formatBytes(neededBytes)} needed (weights ${formatBytes(weightBytes)}, a context of ${countOf(tokens, "token")} ${formatBytes(kvCacheBytes)}), ${formatBytes(availableBytes)} free`;
}
