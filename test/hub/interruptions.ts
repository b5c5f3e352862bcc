// Downloads a file through many interruptions: cuts of the connection, aborts, and processes that are killed. Counts
// what the servers sent, so that a byte that was fetched twice is noticed.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect } from "vitest";
import { HubEnvironment, paddedModel } from "./hub-environment.js";
import { sha256, TestHub } from "./test-hub.js";

const PULLING = fileURLToPath(new URL("pulling-process.mjs", import.meta.url));

export interface Interruptions {
  readonly sizeBytes: number;
  readonly count: number;
  /** The largest range of a request. */
  readonly chunkBytes: number;
  readonly seed: number;
}

/** What happened on the way. */
export interface Interrupted {
  readonly kills: number;
  readonly cuts: number;
  /** Bytes that were sent and not kept. */
  readonly excessBytes: number;
}

/** A process that pulls the hub's model; resolves with its exit code, null if it was killed. */
export async function pullInProcess(
  environment: HubEnvironment,
  hub: TestHub,
  chunkBytes: number,
  onStart: (kill: (signal: NodeJS.Signals) => void) => void = () => {},
): Promise<number | null> {
  const child = spawn(process.execPath, [PULLING, `hf:${hub.repository}`, String(chunkBytes)], {
    env: { ...process.env, ...environment.variables(hub) },
    stdio: ["ignore", "ignore", "inherit"],
  });
  onStart((signal) => child.kill(signal));
  const [code] = (await once(child, "exit")) as [number | null];
  return code;
}

/** Bytes on disk of the download. */
function bytesOnDisk(environment: HubEnvironment, hub: TestHub): number {
  const folder = join(environment.repositoryFolder(hub), "blobs");
  if (!existsSync(folder)) return 0;
  const names = readdirSync(folder).filter((name) => !name.includes(".lock-"));
  return names.reduce((total, name) => total + statSync(join(folder, name)).size, 0);
}

/**
 * Pulls a file; kills the process, or cuts its connection, each time the download has passed the next of `count` random
 * offsets. The last run ends by itself.
 */
export async function pullThroughInterruptions({
  sizeBytes,
  count,
  chunkBytes,
  seed,
}: Interruptions): Promise<Interrupted> {
  await using hub = await TestHub.start([{ path: "fable-Q4_K_M.gguf", bytes: paddedModel(sizeBytes) }]);
  using environment = new HubEnvironment(hub);
  const [{ bytes }] = hub.files;
  const random = randomNumbers(seed);
  const offsets = Array.from({ length: count }, () => Math.floor(random() * (sizeBytes - 1))).toSorted((a, b) => a - b);
  let kills = 0;
  let cuts = 0;
  // Every second interruption is a cut by the server, at the exact offset; the others kill the process near theirs.
  const cutOffsets = offsets.filter((_, index) => index % 2 === 1);
  const killOffsets = offsets.filter((_, index) => index % 2 === 0);
  hub.cdnFault = ({ range }) => {
    const start = Number(/^bytes=(\d+)-/.exec(range ?? "")?.[1] ?? 0);
    while (cutOffsets.length > 0 && cutOffsets[0] < start) cutOffsets.shift();
    const end = Math.min(sizeBytes, start + chunkBytes);
    if (cutOffsets.length === 0 || cutOffsets[0] >= end) return undefined;
    cuts++;
    return { cutAfter: (cutOffsets.shift() ?? 0) - start };
  };
  for (let run = 0; ; run++) {
    expect(run).toBeLessThanOrEqual(count);
    const before = bytesOnDisk(environment, hub);
    const code = await pullInProcess(environment, hub, chunkBytes, (kill) => {
      const offset = killOffsets.shift();
      if (offset === undefined) return;
      const watch = setInterval(() => {
        if (bytesOnDisk(environment, hub) < offset) return;
        clearInterval(watch);
        kills++;
        kill(run % 3 === 2 ? "SIGINT" : "SIGKILL");
      }, 2);
    });
    expect(bytesOnDisk(environment, hub)).toBeGreaterThanOrEqual(before);
    if (code === 0) break;
  }
  const folder = join(environment.repositoryFolder(hub), "blobs");
  expect(readdirSync(folder)).toEqual([sha256(bytes)]);
  expect(sha256(readFileSync(join(folder, sha256(bytes))))).toBe(sha256(bytes));
  // What was sent beyond the file was in flight when something was interrupted: at most a range each.
  expect(hub.sentBytes - sizeBytes).toBeLessThanOrEqual((kills + cuts) * chunkBytes);
  expectNoRangeTwice(hub, chunkBytes);
  return { kills, cuts, excessBytes: hub.sentBytes - sizeBytes };
}

/** Each request begins at most one range before the furthest byte that any earlier one was sent. */
function expectNoRangeTwice(hub: TestHub, chunkBytes: number): void {
  let furthest = 0;
  for (const { range, host, sentBytes } of hub.downloads) {
    if (host !== "cdn") continue;
    const start = Number(/^bytes=(\d+)-/.exec(range ?? "")?.[1] ?? 0);
    expect(start).toBeGreaterThanOrEqual(furthest - chunkBytes);
    furthest = Math.max(furthest, start + sentBytes);
  }
}

/** A small generator (mulberry32), so that a failure can be repeated. */
function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
