// How long it takes, and how much memory it adds, to open a model of Llama-3-8B's shape and build its plan. Each sample
// is a new process, so that only the page cache is warm.

import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { spreadOf } from "../src/cli/bench/spread.js";
import { synthPlan } from "../src/cli/synth/model-plan.js";
import { SHAPES } from "../src/cli/synth/shape.js";
import { writeGguf } from "../src/gguf/writer.js";
import { loadModel } from "../src/index.js";

const SAMPLES = 9;
const TARGET_MS = 100;
const TARGET_BYTES = 60e6;

interface Sample {
  readonly openMs: number;
  readonly addedBytes: number;
  readonly tensors: number;
  readonly loadedTensors: number;
}

export async function run(args: readonly string[]): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), "rocmforge-bench-"));
  try {
    const path = join(folder, "llama3-8b-shape.gguf");
    await writeShape(path);
    const samples = Array.from({ length: SAMPLES }, () => measureInChild(path));
    return report(samples, statSync(path).size, args.includes("--json"));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * Writes 291 tensors, 128,256 tokens and 280,147 merges; the weights are a hole in the file, so only its header takes
 * disk space.
 */
async function writeShape(path: string): Promise<void> {
  const { metadata, tensors } = synthPlan("llama3-8b", SHAPES["llama3-8b"], { mix: "Q4_K_M", seed: 1 });
  await writeGguf(path, { metadata, tensors: tensors.map((tensor) => ({ ...tensor, data: "sparse" })) });
}

function measureInChild(path: string): Sample {
  const script = fileURLToPath(import.meta.url);
  const output = execFileSync(process.execPath, ["--expose-gc", script, "--child", path], { encoding: "utf8" });
  return JSON.parse(output) as Sample;
}

/** Modules are imported before the clock starts: this measures opening a file, not starting Node. */
async function measure(path: string): Promise<Sample> {
  globalThis.gc?.();
  const before = process.memoryUsage.rss();
  const start = performance.now();
  await using model = await loadModel(path, { backend: "reference" });
  const openMs = performance.now() - start;
  const addedBytes = process.memoryUsage.rss() - before;
  const { totalTensors, loadedTensors } = model.loadingStats();
  return { openMs, addedBytes, tensors: totalTensors, loadedTensors };
}

function report(samples: readonly Sample[], fileBytes: number, json: boolean): number {
  const openMs = spreadOf(samples.map((sample) => sample.openMs));
  const addedBytes = spreadOf(samples.map((sample) => sample.addedBytes));
  const { tensors } = samples[0];
  const loadedTensors = Math.max(...samples.map((sample) => sample.loadedTensors));
  const ok = openMs.median < TARGET_MS && addedBytes.median < TARGET_BYTES && loadedTensors === 0;
  if (json) {
    console.log(JSON.stringify({ openMs, addedBytes, tensors, loadedTensors, fileBytes, samples: samples.length, ok }));
  } else {
    const megabytes = (bytes: number): string => (bytes / 1e6).toFixed(1);
    console.log(`file           ${megabytes(fileBytes)} MB, ${tensors} tensors in the plan, ${loadedTensors} loaded`);
    console.log(
      `open and plan  ${openMs.median.toFixed(1)} ms (${openMs.min.toFixed(1)} to ${openMs.max.toFixed(1)}), target under ${TARGET_MS}`,
    );
    console.log(
      `memory added   ${megabytes(addedBytes.median)} MB (${megabytes(addedBytes.min)} to ${megabytes(addedBytes.max)}), target under ${megabytes(TARGET_BYTES)}`,
    );
  }
  return ok ? 0 : 1;
}

const [flag, path] = process.argv.slice(2);
if (flag === "--child" && path !== undefined) console.log(JSON.stringify(await measure(path)));
