// The long soak test: `npm run soak -- --minutes 10 [--warm-up 1] [--clients 24] [--seed 5] [--backend cpu] [--model
// file.gguf …]`. A server in its own process, two models or those named (`hybrid`: a small one with recurrent layers), and
// a report; it fails if a request failed, a block or a state slot was left, or memory grew.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { writeHybridModel } from "../test/support/hybrid-model.js";
import { TemporaryFolder } from "../test/support/temporary-folder.js";
import { type MemorySample, runSoak, type SoakReport } from "../test/server/serving/soak.js";

const MIB = 2 ** 20;
const MS_PER_MINUTE = 60_000;
/** The most growth from the second fifth of the run to the last: normal variation of a heap. */
const MOST_GROWTH_BYTES = 32 * MIB;
/** Its tokens are bytes. */
const HYBRID_CONTEXT = 8192;
const MODELS: readonly { readonly name: string; readonly path: string }[] = [
  { name: "embedded", path: join("models", "fable-10m-Q4_K_M.gguf") },
  { name: "small", path: join("test", "fixtures", "models", "fable-3m-qwen2-Q4_K_M.gguf") },
];

export async function run(args: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      minutes: { type: "string", default: "10" },
      "warm-up": { type: "string", default: "1" },
      clients: { type: "string", default: "24" },
      seed: { type: "string", default: "5" },
      backend: { type: "string", default: "cpu" },
      model: { type: "string", multiple: true, short: "m" },
    },
  });
  using folder = new TemporaryFolder();
  const served = values.model === undefined ? MODELS : await named(values.model, folder);
  const models = served.flatMap(({ name, path }) => ["-m", `${name}=${path}`]);
  const command = [
    join("dist", "cli", "main.js"),
    "serve",
    "--port",
    "0",
    ...models,
    "--backend",
    values.backend,
    "--max-concurrent",
    "16",
    "--log-level",
    "warn",
  ];
  const server = spawn(process.execPath, command, {
    stdio: ["ignore", "pipe", "inherit"],
    env: { ...process.env, ROCMFORGE_API_KEYS: undefined },
  });
  const ended = once(server, "close");
  try {
    const url = await listening(server.stdout);
    const [warmUpMs, durationMs] = (["warm-up", "minutes"] as const).map(
      (name) => count(name, values[name]) * MS_PER_MINUTE,
    );
    const options = {
      warmUpMs,
      durationMs,
      clients: count("clients", values.clients),
      seed: count("seed", values.seed),
    };
    const report = await runSoak({
      url,
      models: served.map(({ name }) => name),
      ...options,
      onProgress: (line) => console.log(`  ${line}`),
    });
    server.kill("SIGTERM");
    const [status] = (await ended) as readonly unknown[];
    return judge(report, status);
  } finally {
    server.kill("SIGKILL");
  }
}

/** Two names at least: a server with one model answers to any. */
async function named(paths: readonly string[], folder: TemporaryFolder): Promise<typeof MODELS> {
  const hybrid = folder.file("hybrid.gguf");
  if (paths.includes("hybrid")) await writeHybridModel(hybrid, { context: HYBRID_CONTEXT });
  const all = paths.length === 1 ? [...paths, ...paths] : paths;
  return all.map((path, index) => ({ name: `model${index}`, path: path === "hybrid" ? hybrid : path }));
}

function count(name: string, text: string): number {
  const value = Number(text);
  if (!(value > 0)) throw new TypeError(`soak: --${name}: expected a number above 0, found ${text}`);
  return value;
}

async function listening(stdout: NodeJS.ReadableStream): Promise<string> {
  let text = "";
  for await (const chunk of stdout) {
    text += String(chunk);
    const url = /^rocmforge is listening on (?<url>\S+)$/m.exec(text)?.groups?.["url"];
    if (url !== undefined) return url;
  }
  throw new Error(`rocmforge serve ended before it listened:\n${text}`);
}

function judge(report: SoakReport, exitStatus: unknown): number {
  const {
    requests,
    generatedTokens,
    problems,
    running,
    queued,
    inFlight,
    leakedBlocks,
    leakedSlots,
    memoryGrowthBytes,
    memory,
  } = report;
  console.log(`soak: ${requests} requests, ${generatedTokens} tokens written; ${listed(report.byManner)}`);
  console.log(`  ${listed(report.byKind)}`);
  console.log(
    `  left behind: ${running} running, ${queued} queued, ${inFlight} in flight, ${leakedBlocks} blocks, ${leakedSlots} state slots; the server ended with ${String(exitStatus)}`,
  );
  console.log(
    `  memory: ${memoryLine(memory)}; grew by ${(memoryGrowthBytes / MIB).toFixed(1)} MiB after warming up (at most ${MOST_GROWTH_BYTES / MIB})`,
  );
  console.log(`  problems: ${problems.length}${problems.map((problem) => `\n    ${problem}`).join("")}`);
  const isFine =
    problems.length + running + queued + inFlight + leakedBlocks + leakedSlots === 0 &&
    exitStatus === 0 &&
    memoryGrowthBytes <= MOST_GROWTH_BYTES;
  return isFine ? 0 : 1;
}

function listed(counts: ReadonlyMap<string, number>): string {
  return [...counts].map(([name, times]) => `${times} ${name}`).join(", ");
}

/** Ten samples, evenly spread. */
function memoryLine(memory: readonly MemorySample[]): string {
  const picked = Array.from({ length: 10 }, (_, index) => memory[Math.floor(((index + 0.5) * memory.length) / 10)]);
  return `${picked.map(({ residentBytes }) => (residentBytes / MIB).toFixed(0)).join(" ")} MiB`;
}
