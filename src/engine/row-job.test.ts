import { describe, expect, it } from "vitest";
import { SimulatedEngine } from "./testing/simulated-engine.js";

const TEXT = Int32Array.from({ length: 60 }, (_, index) => (index * 7) % 40);

describe("RowJob", () => {
  it("gives a text that lost its place the vector that it has alone", async () => {
    const alone = await new SimulatedEngine().embed(TEXT);
    // Two blocks for each prompt, fifteen for the text, and one to grow for each writer.
    const serving = new SimulatedEngine({ blocks: 24 });
    const others = [1, 2, 3].map((token) =>
      serving.read(
        serving.complete({ prompt: new Int32Array(8).fill(token), maxTokens: 40, ignoreEndOfGeneration: true }),
      ),
    );
    const crowded = await serving.embed(TEXT);
    await Promise.all(others);
    expect(serving.loop.statistics().preemptions).toBeGreaterThan(0);
    expect(crowded).toEqual(alone);
    expect(serving.pool.availableBlocks).toBe(serving.pool.blocks);
  });
});
