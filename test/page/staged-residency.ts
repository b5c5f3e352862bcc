// The tensors of a published model's shape, which arrive when a test says so: real handles and a real list, without a file
// and without weights.

import { SHAPES } from "../../src/cli/synth/shape.js";
import { synthPlan } from "../../src/cli/synth/model-plan.js";
import { PlanResidency } from "../../src/plan/residency.js";
import type { LayerPlan } from "../../src/plan/layer-plan.js";
import { layoutByName } from "../../src/quant/layout.js";
import type { TensorDescriptor } from "../../src/tensor/descriptor.js";
import type { DeviceTensor } from "../../src/tensor/device-tensor.js";
import { LazyTensor } from "../../src/tensor/lazy-tensor.js";

/** Loads in flight, as in the loader. */
const IN_FLIGHT = 3;

export class StagedResidency {
  readonly residency: PlanResidency;
  readonly #handles: LazyTensor[] = [];
  readonly #arrivals: (() => void)[] = [];
  #begun = 0;
  #arrived = 0;

  constructor(shape: keyof typeof SHAPES, device: string) {
    const { tensors } = synthPlan(shape, SHAPES[shape], { mix: "Q4_K_M", seed: 1 });
    const layers = new Map<string, { name: string; layer: number | undefined; weights: { tensor: LazyTensor }[] }>();
    for (const { name, type, shape: dimensions } of tensors) {
      const layout = layoutByName(type);
      const elements = dimensions.reduce((total, length) => total * length, 1);
      const sizeBytes = (elements / layout.blockElements) * layout.blockBytes;
      const descriptor: TensorDescriptor = { name, layout, shape: dimensions, elements, sizeBytes };
      const number = /^blk\.(\d+)\./.exec(name)?.[1];
      const segment = number === undefined ? (name.startsWith("output") ? "output" : "embedding") : `layer ${number}`;
      const layer = layers.get(segment) ?? {
        name: segment,
        layer: number === undefined ? undefined : Number(number),
        weights: [],
      };
      layers.set(segment, layer);
      layer.weights.push({ tensor: this.#handle(descriptor) });
    }
    const order = [...layers.values()].sort((one, other) => rank(one.name) - rank(other.name));
    this.#handles = order.flatMap(({ weights }) => weights.map(({ tensor }) => tensor));
    this.residency = new PlanResidency(order as unknown as readonly LayerPlan[], { name: "demo", summary: device });
  }

  get tensors(): number {
    return this.#handles.length;
  }

  /** Lets tensors arrive, in the order of the model, until this share of them is resident. */
  async arrive(share: number): Promise<void> {
    const wanted = Math.round(share * this.#handles.length);
    while (this.#arrived < wanted) {
      this.#begin();
      this.#arrivals[this.#arrived++]?.();
    }
    this.#begin();
    await new Promise((resolve) => setImmediate(resolve));
  }

  #begin(): void {
    while (this.#begun < Math.min(this.#handles.length, this.#arrived + IN_FLIGHT))
      void this.#handles[this.#begun++].load();
  }

  #handle(descriptor: TensorDescriptor): LazyTensor {
    return new LazyTensor(
      descriptor,
      () =>
        new Promise<DeviceTensor>((resolve) => {
          this.#arrivals.push(() =>
            resolve({ descriptor, residentBytes: descriptor.sizeBytes, [Symbol.dispose]: () => {} }),
          );
        }),
    );
  }
}

function rank(segment: string): number {
  if (segment === "embedding") return -1;
  return segment === "output" ? Number.POSITIVE_INFINITY : Number(segment.slice("layer ".length));
}
