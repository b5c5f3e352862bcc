import { expect, it } from "vitest";
import { type ModelResidency, type ResidencyTensor, withChanges } from "../api/residency";
import { layersOf, totalsOf } from "./residency-summary";

function tensor(name: string, layer: number | null, bytes: number): ResidencyTensor {
  const segment = layer === null ? "output" : `layer ${layer}`;
  return {
    name,
    segment,
    layer,
    type: "Q4_K",
    shape: [bytes],
    bytes,
    place: "device",
    state: "unloaded",
    resident_bytes: 0,
  };
}

const residency: ModelResidency = {
  model: "m",
  state: "loading",
  device: "d",
  tensors: [tensor("a", 0, 10), tensor("b", 0, 20), tensor("c", 1, 30), tensor("d", null, 40)],
};

it("groups tensors by layer and sums them", () => {
  const changed = withChanges(residency, {
    state: "loading",
    changed: [
      { index: 1, state: "resident", resident_bytes: 24 },
      { index: 2, state: "arriving", resident_bytes: 0 },
    ],
  });
  expect(
    layersOf(changed).map(({ name, isLayer, bytes, residentTensors }) => [name, isLayer, bytes, residentTensors]),
  ).toEqual([
    ["Layer 0", true, 30, 1],
    ["Layer 1", true, 30, 0],
    ["output", false, 40, 0],
  ]);
  expect(totalsOf(changed)).toMatchObject({
    bytes: 100,
    residentBytes: 20,
    deviceBytes: 24,
    count: { unloaded: 2, arriving: 1, resident: 1, failed: 0 },
    types: [["Q4_K", 100]],
  });
  // Unchanged tensors are the same objects, so that they are not drawn again.
  expect(changed.tensors[0]).toBe(residency.tensors[0]);
});
