import { describe, expect, it } from "vitest";
import { DeltaStream } from "./delta-stream.js";

async function rest(stream: DeltaStream): Promise<string[]> {
  const texts: string[] = [];
  for (let result = await stream.next(); result.done !== true; result = await stream.next())
    texts.push(`${result.value.choice}:${result.value.text}`);
  return texts;
}

describe("DeltaStream", () => {
  it("joins what a slow reader has not read, run by run", async () => {
    const stream = new DeltaStream();
    for (let count = 0; count < 1000; count++) stream.push(0, "a", [1], [{ token: 1, logprob: -1, top: [] }]);
    stream.push(1, "b", [2], []);
    stream.push(0, "c", [3], []);
    stream.end();
    const first = await stream.next();
    expect(first.value).toMatchObject({ choice: 0, text: "a".repeat(1000) });
    expect(first.value?.tokens).toHaveLength(1000);
    expect(first.value?.logprobs).toHaveLength(1000);
    expect(await rest(stream)).toEqual(["1:b", "0:c"]);
  });

  it("says what a delta was joined of, and nothing of one that was not", async () => {
    const stream = new DeltaStream();
    stream.push(0, "ab", [1], []);
    stream.push(0, "", [2], []);
    stream.push(0, "cde", [3, 4], []);
    stream.push(1, "f", [5], []);
    const [joined, single] = [await stream.next(), await stream.next()];
    expect(joined.value?.parts).toEqual([
      { characters: 2, tokens: 1 },
      { characters: 0, tokens: 1 },
      { characters: 3, tokens: 2 },
    ]);
    expect(single.value?.parts).toBeUndefined();
  });

  it("says when the last token came, and how a choice ended, however late it is read", async () => {
    const stream = new DeltaStream();
    stream.push(0, "a", [1], []);
    const beforeMs = performance.now();
    stream.push(0, "b", [2], []);
    const afterMs = performance.now();
    const finished = { reason: "stop", generatedTokens: 2 } as const;
    while (performance.now() === afterMs);
    stream.push(0, "c", [], [], finished);
    stream.push(1, "", [], [], finished);
    const [first, second] = [await stream.next(), await stream.next()];
    expect(first.value).toMatchObject({ text: "abc", finished });
    expect(first.value?.atMs).toBeGreaterThanOrEqual(beforeMs);
    expect(first.value?.atMs).toBeLessThanOrEqual(afterMs);
    expect(second.value).toMatchObject({ choice: 1, text: "", finished });
  });

  it("hands a delta to whoever waits, and leaves it alone after that", async () => {
    const stream = new DeltaStream();
    const waiting = stream.next();
    stream.push(0, "a", [1], []);
    stream.push(0, "b", [2], []);
    expect((await waiting).value).toMatchObject({ text: "a", tokens: [1] });
    stream.end();
    expect(await rest(stream)).toEqual(["0:b"]);
  });

  it("tells of a failure once, after what came before it", async () => {
    const stream = new DeltaStream();
    stream.push(0, "a", [1], []);
    stream.fail(new Error("broken"));
    stream.push(0, "too late", [2], []);
    expect((await stream.next()).value?.text).toBe("a");
    await expect(stream.next()).rejects.toThrow("broken");
    expect(await stream.next()).toEqual({ done: true, value: undefined });
  });

  it("ends or fails for those who wait", async () => {
    const [ending, failing] = [new DeltaStream(), new DeltaStream()];
    const reads = [ending.next(), ending.next(), failing.next(), failing.next()];
    ending.end();
    failing.fail(new Error("broken"));
    const results = await Promise.allSettled(reads);
    expect(results.map(({ status }) => status)).toEqual(["fulfilled", "fulfilled", "rejected", "fulfilled"]);
  });
});
