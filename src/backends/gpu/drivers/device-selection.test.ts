import { describe, expect, it } from "vitest";
import { GpuError } from "../../../errors.js";
import { chooseDevice } from "./device-selection.js";
import type { GpuProperties } from "./shared/driver.js";

function device(index: number, name: string, gigabytes: number, integrated = false): GpuProperties {
  return {
    index,
    name,
    architecture: "gfx1100",
    totalBytes: gigabytes * 1e9,
    multiprocessors: 8,
    waveSize: 32,
    sharedBytes: 65_536,
    integrated,
  };
}

const DEVICES = [
  device(0, "AMD Radeon Graphics", 64, true),
  device(1, "AMD Radeon RX 7900 XTX", 24),
  device(2, "AMD Radeon RX 7900 XT", 20),
];

describe("chooseDevice", () => {
  it("takes a card of its own before a larger share of the host's memory, and the largest of those", () => {
    const { properties, because } = chooseDevice("hip", DEVICES, undefined);
    expect(properties.index).toBe(1);
    expect(because).toBe("device 1 of 3, the one with the most memory");
  });

  it("says why", () => {
    expect(chooseDevice("hip", DEVICES.slice(0, 2), undefined).because).toBe(
      "device 1 of 2, a discrete card with its own memory",
    );
    expect(chooseDevice("hip", DEVICES.slice(1, 2), undefined).because).toBe("the only device");
    const twins = [device(0, "A", 8), device(1, "A", 8)];
    expect(chooseDevice("cuda", twins, undefined)).toMatchObject({
      properties: { index: 0 },
      because: "device 0 of 2, the first of those with the most memory",
    });
  });

  it("takes a number or a part of a name in any case", () => {
    expect(chooseDevice("hip", DEVICES, 0).properties.index).toBe(0);
    expect(chooseDevice("hip", DEVICES, "xtx").properties.index).toBe(1);
    expect(chooseDevice("hip", DEVICES, "amd radeon rx 7900 xt").properties.index).toBe(2);
  });

  it("rejects what is unknown or ambiguous, listing what there is", () => {
    const list = /there are: 0 AMD Radeon Graphics, 1 AMD Radeon RX 7900 XTX, 2 AMD Radeon RX 7900 XT/;
    for (const wanted of [3, -1, 0.5, "NVIDIA", "", " ", "radeon"]) {
      expect(() => chooseDevice("hip", DEVICES, wanted)).toThrow(list);
      expect(() => chooseDevice("hip", DEVICES, wanted)).toThrow(GpuError);
    }
    expect(() => chooseDevice("hip", [], undefined)).toThrow(/there is no device/);
  });
});
