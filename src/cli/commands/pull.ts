// `rocmforge pull`: downloads models by name, after saying what they are and whether they would run here.

import { RocmForgeError } from "../../errors.js";
import { pullModel, type PullProgress } from "../../index.js";
import { defineCommand } from "../command.js";
import { formatBytes, printable } from "../format.js";
import { Interrupt, Interrupted } from "../interrupt.js";
import { pullValues } from "../model-file.js";
import { GENERAL_OPTIONS, MODEL_OPTIONS } from "../model-options.js";
import { type OptionTable, wrongValue } from "../option-table.js";
import { messageFor } from "../option-words.js";
import { Progress } from "../progress.js";
import { describePreview, describePull } from "../pull-text.js";

const NAME = "pull";
/** Models that are downloaded at the same time. */
const PARALLEL_MODELS = 3;

const { model: _model, deterministic: _deterministic, ...DEVICE_OPTIONS } = MODEL_OPTIONS;

const OPTIONS = {
  json: { kind: "flag", description: "print one JSON object per model: name, path, sizeBytes" },
  ...DEVICE_OPTIONS,
  force: { ...MODEL_OPTIONS.force, description: "download models even if they are not supported or do not fit" },
  ...GENERAL_OPTIONS,
} as const satisfies OptionTable;

/** The command `pull`. */
export const pull = defineCommand({
  name: NAME,
  summary: "downloads models",
  about: [
    "MODEL is hf:user/repo[:quant], hf:user/repo/file.gguf[#branch] or the https:// address of a GGUF. Without a quant it",
    "is Q4_K_M, else Q8_0, else the first model file. The header is read first, and a model that is not supported or does",
    "not fit this device is refused; --ctx, --backend and --device say what it has to fit. Files go to the cache that",
    "Hugging Face's tools and llama.cpp share. An interrupted download resumes.",
  ],
  positionals: ["MODEL…"],
  options: OPTIONS,
  examples: [
    { what: "a model of the hub", line: "rocmforge pull hf:user/repo:Q4_K_M" },
    { what: "two at once", line: "rocmforge pull hf:user/repo hf:user/other/file.gguf#branch" },
  ],
  async run(values, names, { output }) {
    if (names.length === 0) throw wrongValue(NAME, "model", "a model such as hf:user/repo:Q4_K_M", "nothing");
    using interrupt = new Interrupt();
    using progress = new Progress("looking for the models");
    const reports = new Map<string, PullProgress>();
    const pullOne = async (name: string): Promise<void> => {
      let sizeBytes: number | undefined;
      const { path } = await pullModel(name, {
        ...pullValues(values),
        signal: AbortSignal.any([interrupt.signal, output.gone]),
        onPreview: (preview) => {
          sizeBytes = preview.sizeBytes;
          if (preview.missingBytes > 0) progress.note(describePreview(preview, values.force));
        },
        onProgress: (report) => {
          reports.set(name, report);
          progress.update(describeAll([...reports.values()]));
        },
      });
      if (values.json) await output.writeJson({ name, path, sizeBytes: sizeBytes ?? null });
      else await output.write(`${printable(path)}\n`);
    };
    const failures = await inParallel([...new Set(names)], async (name) => {
      try {
        await pullOne(name);
      } finally {
        reports.delete(name);
      }
    });
    if (interrupt.signal.aborted) {
      progress.end();
      throw new Interrupted("interrupted; the same command resumes the download", interrupt.exitStatus);
    }
    const expected = failures.filter((failure) => failure instanceof RocmForgeError);
    if (expected.length < failures.length) throw failures.find((failure) => !(failure instanceof RocmForgeError));
    for (const failure of expected.slice(0, -1)) progress.note(printable(messageFor(failure, NAME)));
    if (expected.length > 0) throw expected.at(-1);
    return 0;
  },
});

/** One line for several downloads: the sums. */
function describeAll(reports: readonly PullProgress[]): string {
  if (reports.length === 1) return describePull(reports[0]);
  const sum = (value: (report: PullProgress) => number): number =>
    reports.reduce((total, report) => total + value(report), 0);
  const rate = sum(({ bytesPerSecond }) => bytesPerSecond);
  return `downloading ${reports.length} models, ${formatBytes(sum(({ doneBytes }) => doneBytes))} of ${formatBytes(sum(({ totalBytes }) => totalBytes))}, ${formatBytes(rate)}/s`;
}

/** Works on every name, a few at a time, whatever becomes of the others; returns the failures. */
async function inParallel(
  names: readonly string[],
  work: (name: string) => Promise<void>,
): Promise<readonly unknown[]> {
  const failures: unknown[] = [];
  let next = 0;
  const runner = async (): Promise<void> => {
    while (next < names.length) await work(names[next++]).catch((error: unknown) => failures.push(error));
  };
  await Promise.all(Array.from({ length: PARALLEL_MODELS }, runner));
  return failures;
}
