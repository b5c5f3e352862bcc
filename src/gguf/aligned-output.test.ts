import { open, readFile } from "node:fs/promises";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { TemporaryFolder } from "../../test/support/temporary-folder.js";
import { AlignedOutput, CHUNK_BYTES } from "./aligned-output.js";

async function written(
  writes: readonly { readonly gap: number; readonly bytes: Uint8Array }[],
): Promise<{ found: Buffer; expected: Buffer }> {
  using folder = new TemporaryFolder();
  const path = folder.file("out");
  const handle = await open(path, "w");
  const parts: Uint8Array[] = [];
  try {
    const output = new AlignedOutput(handle);
    let position = 0;
    for (const { gap, bytes } of writes) {
      position += gap;
      parts.push(Buffer.alloc(gap), bytes);
      await output.write(bytes, position);
      position += bytes.length;
    }
    await output.flush();
  } finally {
    await handle.close();
  }
  return { found: await readFile(path), expected: Buffer.concat(parts) };
}

describe("AlignedOutput", () => {
  it("writes bytes at their positions, whatever the sizes and gaps", async () => {
    const sizes = fc.oneof(
      fc.integer({ min: 1, max: 100 }),
      fc.integer({ min: 60_000, max: 200_000 }),
      fc.constant(CHUNK_BYTES - 5),
      fc.constant(CHUNK_BYTES + 7),
    );
    const gaps = fc.oneof(
      fc.constant(0),
      fc.integer({ min: 0, max: 40 }),
      fc.integer({ min: 60_000, max: 70_000 }),
      fc.constant(CHUNK_BYTES),
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.record({ gap: gaps, size: sizes }), { minLength: 1, maxLength: 5 }),
        async (plan) => {
          const { found, expected } = await written(
            plan.map(({ gap, size }, index) => ({ gap, bytes: new Uint8Array(size).fill(index + 1) })),
          );
          expect(found.equals(expected)).toBe(true);
        },
      ),
      { numRuns: 20 },
    );
  });

  it("hands over chunks that begin and end at multiples of their size", async () => {
    const calls: { readonly position: number; readonly length: number }[] = [];
    const handle = {
      write: async (_: Uint8Array, __: number, length: number, position: number) => (
        calls.push({ position, length }),
        { bytesWritten: length }
      ),
    };
    const output = new AlignedOutput(handle as never);
    await output.write(new Uint8Array(100), 0);
    await output.write(new Uint8Array(2 * CHUNK_BYTES), 128);
    await output.flush();
    expect(calls).toEqual([
      { position: 0, length: CHUNK_BYTES },
      { position: CHUNK_BYTES, length: CHUNK_BYTES },
      { position: 2 * CHUNK_BYTES, length: 128 },
    ]);
  });
});
