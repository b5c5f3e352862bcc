import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { isSupported, layoutByName, LAYOUTS, SUPPORTED } from "../../../quant/layout.js";
import { KERNEL_FOLDER } from "../kernels/kernel-source.js";
import { hasDeviceLayout, weightLayout } from "./weight-layout.js";

const TYPES = SUPPORTED.map(({ name }) => name);
/** In the table of the file format, without a decoder. */
const REFUSED = LAYOUTS.filter((layout) => !isSupported(layout)).map(({ name }) => name);

describe("weightLayout", () => {
  it.each(TYPES)("%s rows lose nothing and can be loaded 16 bytes at a time", (type) => {
    const { blockElements, plain } = { ...layoutByName(type), plain: ["F32", "F16", "BF16"].includes(type) };
    const layout = weightLayout(type, blockElements * 24, 7);
    expect(layout.plain).toBe(plain);
    expect(layout.sizeBytes).toBe(layout.rowBytes * 7);
    expect(layout.rowBytes).toBeGreaterThanOrEqual(layout.fileRowBytes);
    expect(layout.rowBytes).toBeLessThan(layout.fileRowBytes * 1.05 + 16);
    if (!plain) expect(layout.rowBytes % 16).toBe(0);
    if (!layout.repacked) expect(layout.rowBytes).toBe(layout.fileRowBytes);
    let end = 0;
    for (const { offsetBytes, sizeBytes } of layout.planes) {
      expect(offsetBytes).toBe(end);
      end += sizeBytes;
    }
    expect(end).toBeLessThanOrEqual(layout.rowBytes);
  });

  it.each(TYPES.filter((type) => weightLayout(type, 256, 1).repacked))(
    "%s planes are where the kernels look",
    (type) => {
      // `row + blocks * 24 + block * 2` and `… + (block >> 3) * 2` name the place of a plane, in bytes a block, and its
      // entries; `row + (blocks >> 3) * 52` names the place in bytes a super-block. lane_place(row, a, b) is row + a + b.
      const headers = ["simple", "k", "codebook", "ternary"]
        .map((family) => `weights/weights-${family}.h`)
        .map((file) => readFileSync(join(KERNEL_FOLDER, file), "utf8"))
        .join("\n");
      const structs = headers.split(/^(?=struct )/m);
      const fetchOf = (name: string): string | undefined =>
        /DEVICE Raw fetch\([^{]*\{(.*?)\n {2}\}/s.exec(
          structs.find((part) => part.startsWith(`struct ${name} :`)) ?? "",
        )?.[1];
      const base = new RegExp(`^struct Format<k${type}> : (\\w+)`, "m").exec(headers)?.[1] ?? "";
      const body = (fetchOf(`Format<k${type}>`) ?? fetchOf(base) ?? "")
        .replaceAll("lane_place(row, 0, ", "row + ")
        .replaceAll(/lane_place\(row, (blocks \* \d+), /g, "row + $1 + ");
      const found = [
        ...body.matchAll(
          /row(?: \+|\[)(?: ?(blocks|\(blocks >> 3\)) \* (\d+) \+)? ?(?:\(block >> (3)\)|block)(?: \* (\d+))?/g,
        ),
      ].map(([, unit, offset, shared, bytes]) => ({
        offsetBytes: Number(offset ?? 0) * (unit === "blocks" ? 8 : 1),
        sizeBytes: Number(bytes ?? 1) * (shared === undefined ? 8 : 1),
      }));
      expect(found).toEqual(
        weightLayout(type, 256, 1).planes.map(({ offsetBytes, sizeBytes }) => ({ offsetBytes, sizeBytes })),
      );
    },
  );

  it("knows what an 8B model takes", () => {
    expect(weightLayout("Q4_K", 4096, 14_336).sizeBytes).toBe(14_336 * 16 * 148);
    expect(weightLayout("Q6_K", 4096, 128_256).rowBytes).toBe(16 * 210);
    expect(weightLayout("Q8_0", 896, 1).rowBytes).toBe(28 * 34 + 8);
  });

  it("rejects types that have no kernels, by name", () => {
    for (const type of REFUSED) {
      expect(hasDeviceLayout(type)).toBe(false);
      expect(() => weightLayout(type, 256, 1)).toThrow(type);
    }
    expect(() => weightLayout("toString", 256, 1)).toThrow("toString");
  });

  it("rejects rows that are no whole blocks", () => {
    expect(() => weightLayout("Q4_K", 100, 1)).toThrow("whole Q4_K blocks");
    expect(() => weightLayout("Q8_0", 0, 1)).toThrow("whole Q8_0 blocks");
    expect(() => weightLayout("F32", 3, 0)).toThrow("0 rows of 3");
    expect(weightLayout("F32", 3, 5).sizeBytes).toBe(60);
  });
});
