// What a worker says to its thread and makes of the answers, with the thread left out.

import { afterEach, describe, expect, test, vi } from "vitest";
import { type CallOutcome, LimitedWorker } from "../../worker/limited-worker.js";
import { GrammarWorker } from "./grammar-worker.js";

const VOCABULARY = { size: 1, offsets: new Uint32Array(2), bytes: new Uint8Array(), endTokens: [0] } as never;
const done: CallOutcome<unknown> = { kind: "answer", value: { kind: "done", tookMs: 1 } };

describe("texts that ended", () => {
  afterEach(() => {
    vi.restoreAllMocks();
  });

  test.each<[string, CallOutcome<unknown>, readonly number[], string]>([
    [
      "could not be cloned",
      { kind: "thrown", name: "DataCloneError", message: "() => 1 could not be cloned." },
      [3, 4],
      "GRAMMAR_INVALID",
    ],
    ["found no room", { kind: "full", message: "9 calls wait already" }, [3, 4], "SERVING_QUEUE_FULL"],
    ["was sentTokens, and failed", { kind: "thrown", name: "TypeError", message: "wrong" }, [4], "GRAMMAR_LIMIT"],
    ["brought the thread down", { kind: "stopped", limit: "crash", message: "died" }, [4], "GRAMMAR_LIMIT"],
  ])("are sent again if the request %s and the thread did not get them", async (_, outcome, closed, code) => {
    const call = vi.spyOn(LimitedWorker.prototype, "call").mockResolvedValueOnce(outcome).mockResolvedValueOnce(done);
    await using worker = new GrammarWorker(VOCABULARY, { compileMs: 1, maskDeadlineMs: 1, pathMs: 1 });
    worker.close(3);
    await expect(worker.compile(0, { kind: "json" })).rejects.toMatchObject({ code });
    worker.close(4);
    await worker.compile(0, { kind: "json" });
    expect(call.mock.calls.map(([request]) => (request as { readonly closed: readonly number[] }).closed)).toEqual([
      [3],
      closed,
    ]);
  });
});
