// Generates from a file of prompts, {"id": …, "prompt": …} in each line, to a file of results. A run that was ended, by
// Ctrl-C or by force, continues where it stopped: results are appended as they come, and what is there is not computed again.
//   node batch-file.ts prompts.jsonl results.jsonl [model.gguf]

import { createReadStream } from "node:fs";
import { open, readFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { embeddedModelPath, loadModel } from "rocmforge";
import { z } from "zod";

/** Requests in flight: the engine batches them, and no more lines than these are in memory. */
const CONCURRENCY = 64;

const Job = z.object({ id: z.union([z.string(), z.number()]), prompt: z.string().min(1) });

const [input, output, file = embeddedModelPath()] = process.argv.slice(2);
if (input === undefined || output === undefined)
  throw new Error("usage: node batch-file.ts prompts.jsonl results.jsonl [model.gguf]");

/** The results of earlier runs; half a line at the end, from a run that was killed, is cut off. */
const results = await open(output, "a+");
const written = await readFile(output, "utf8");
const complete = written.slice(0, written.lastIndexOf("\n") + 1);
await results.truncate(Buffer.byteLength(complete));
const done = new Set(
  complete
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => (JSON.parse(line) as { id: string | number }).id),
);

async function* jobs() {
  let number = 0;
  for await (const line of createInterface({ input: createReadStream(input), crlfDelay: Infinity })) {
    number++;
    if (line.trim() === "") continue;
    const job = Job.safeParse(parse(line));
    if (!job.success)
      throw new Error(`${input}:${number}: expected {"id": …, "prompt": …}, found ${line.slice(0, 80)}`);
    if (!done.has(job.data.id)) yield job.data;
  }
}

function parse(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

await using model = await loadModel(file, { concurrency: CONCURRENCY });
const interrupt = new AbortController();
process.once("SIGINT", () => interrupt.abort());

let computed = 0;
const queue = jobs();
/** Takes the next job until none is left; all workers share the queue. */
async function work(): Promise<void> {
  for await (const { id, prompt } of { [Symbol.asyncIterator]: () => ({ next: () => queue.next() }) }) {
    const { text, finishReason, usage } = await model.generate(prompt, {
      maxTokens: 64,
      seed: 1,
      parseSpecial: false, // prompts are data here
      signal: interrupt.signal,
    });
    if (finishReason === "abort") return;
    await results.appendFile(`${JSON.stringify({ id, text, finishReason, tokens: usage.completionTokens })}\n`);
    computed++;
  }
}
await Promise.all(Array.from({ length: CONCURRENCY }, work));
await results.close();
console.log(`${computed} computed, ${done.size} from earlier runs`);
