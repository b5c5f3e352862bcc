// First tokens and gaps between tokens on the simulated clock: what clients see of bursts, of clients that come and go, and
// of long prompts, on an H200 and on a slow processor.

import { describe, expect, it } from "vitest";
import { FULL_RUN } from "../../test/support/full-run.js";
import { runChurn, runLoad, runQuietly, sendBurst } from "./testing/simulated-clients.js";
import { H200, SimulatedLoop, SLOW_PROCESSOR } from "./testing/simulated-loop.js";

/** A gap of more is noticed, and so is a later first token. */
const LONGEST_GAP_MS = 60;
const LATE_MS = 150;

/** The value that a share of all values does not exceed. */
function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((left, right) => left - right);
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)];
}

function burst(clients: number, decoding: number): SimulatedLoop {
  const loop = new SimulatedLoop(H200);
  runQuietly(loop, decoding);
  sendBurst(loop, clients, 100);
  loop.run(loop.nowMs + 1000);
  return loop;
}

describe("the pace of prefill on a simulated H200", () => {
  it.each([
    { clients: 100, decoding: 1 },
    { clients: 100, decoding: 30 },
    { clients: 100, decoding: 100 },
  ])("answers $clients short prompts that arrive together beside $decoding decoding in time", (load) => {
    const { firstTokensMs, gapsMs } = burst(load.clients, load.decoding);
    expect(firstTokensMs).toHaveLength(load.clients);
    expect(Math.max(...firstTokensMs)).toBeLessThanOrEqual(LATE_MS);
    expect(percentile(gapsMs, 1)).toBeLessThanOrEqual(LONGEST_GAP_MS);
  });

  // The host reads 199 requests in 80 ms, and the device computes their prompts in 130 if it does nothing else.
  it.each([
    { clients: 150, decoding: 30, longestMs: 170 },
    { clients: 199, decoding: 30, longestMs: 250 },
  ])("answers $clients beside $decoding decoding within $longestMs ms", (load) => {
    const { firstTokensMs } = burst(load.clients, load.decoding);
    expect(firstTokensMs).toHaveLength(load.clients);
    expect(Math.max(...firstTokensMs)).toBeLessThanOrEqual(load.longestMs);
  });

  it("keeps first tokens and gaps short while clients come and go", () => {
    const loop = new SimulatedLoop(H200);
    runChurn(loop, { seconds: FULL_RUN ? 258 : 80, clients: 200, seed: 3 });
    const late = loop.firstTokensMs.filter((milliseconds) => milliseconds > LATE_MS);
    expect(late.length / loop.firstTokensMs.length).toBeLessThan(0.002);
    expect(percentile(loop.firstTokensMs, 1)).toBeLessThan(175);
    expect(percentile(loop.gapsMs, 0.99)).toBeLessThan(30);
    expect(percentile(loop.gapsMs, 1)).toBeLessThanOrEqual(LONGEST_GAP_MS);
  });

  it("keeps 99 % of gaps within 30 ms while long prompts arrive, in the first burst and later", () => {
    const loop = new SimulatedLoop(H200);
    const load = { clients: 64, promptTokens: 700, answerTokens: 256 };
    runLoad(loop, { ...load, times: 1 });
    expect(percentile(loop.gapsMs, 0.99)).toBeLessThanOrEqual(30);
    loop.clear();
    runLoad(loop, { ...load, times: 3 });
    expect(percentile(loop.gapsMs, 0.99)).toBeLessThanOrEqual(30);
    expect(percentile(loop.gapsMs, 1)).toBeLessThanOrEqual(LONGEST_GAP_MS);
  });

  it("keeps 99 % of gaps within 30 ms while short prompts arrive faster than they can be computed", () => {
    const loop = new SimulatedLoop(H200);
    const longAnswers = { promptTokens: 20, answerTokens: 2000 };
    for (let index = 0; index < 16; index++) loop.send(0, longAnswers);
    runLoad(loop, { clients: 230, promptTokens: 60, answerTokens: 2, times: 40 });
    expect(percentile(loop.gapsMs, 0.99)).toBeLessThanOrEqual(30);
  });
});

it("gives a slow processor no longer steps than before, whatever arrives together", () => {
  const loop = new SimulatedLoop(SLOW_PROCESSOR);
  runLoad(loop, { clients: 64, promptTokens: 20, answerTokens: 64, times: 2 });
  expect(percentile(loop.gapsMs, 1)).toBeLessThan(310);
  expect(percentile(loop.firstTokensMs, 0.5)).toBeLessThan(1800);
});
