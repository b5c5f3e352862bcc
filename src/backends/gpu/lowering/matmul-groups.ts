// Groups of products as launches: their inputs made once for each form that is wanted, matrices of one input together,
// gate and up as one where they can be, and a result handed on in the form that its only reader wants.

import type { GatedMatmulGroup, Group, MatmulAddGroup, MatmulsGroup } from "../../../graph/fusion.js";
import type { MatmulOperation, RmsNormOperation } from "../../../graph/operation.js";
import type { LaunchSpec } from "./launch.js";
import { type ProductWay, productWay } from "./matmul-selection.js";
import { classOf, type LoweringContext, type LoweringSize, type MatrixPlace } from "./context.js";
import { formFor, type InputForm, inputPlace, prepareInput, type ProductInput } from "./inputs.js";
import { gatedByLibrary, libraryProduct } from "./blas-matmuls.js";
import { launchable, type Product, productOf } from "./matmul.js";
import { productsOf } from "./regions.js";
import { gluRows } from "./rows.js";
import { streamedProducts } from "./gemv.js";
import { tiledProducts } from "./gemm.js";
import type { StepItem } from "./step-item.js";

export class ProductLowering {
  readonly #context: LoweringContext;
  readonly #size: LoweringSize;

  get size(): LoweringSize {
    return this.#size;
  }

  constructor(context: LoweringContext, size: LoweringSize) {
    this.#context = context;
    this.#size = size;
  }

  /** `handed` is the input that the group before has left in the form this group wants. */
  project(
    { norm, matmuls }: Pick<MatmulsGroup, "norm" | "matmuls">,
    handed: ProductInput | undefined,
  ): readonly StepItem[] {
    const context = this.#context;
    const targeted = matmuls.map((operation) => ({
      operation,
      product: productOf(context, operation, { out: context.matrix(operation.out) }),
    }));
    return this.#products(norm, targeted, handed);
  }

  projectAdd({ matmul, residual, sum }: MatmulAddGroup, handed: ProductInput | undefined): readonly StepItem[] {
    const target = { out: this.#context.matrix(sum.out), residual };
    return this.#products(
      undefined,
      [{ operation: matmul, product: productOf(this.#context, matmul, target) }],
      handed,
    );
  }

  /** Gate and up; leaves the result in `wanted` where there is one, else as f32 rows. */
  gated(
    { norm, gate, up, activation }: GatedMatmulGroup,
    handed: ProductInput | undefined,
    wanted: ProductInput | undefined,
  ): readonly StepItem[] {
    const context = this.#context;
    const out = context.matrix(activation.out);
    const way = this.#way(gate);
    const [first, second] = [gate, up].map((operation) => productOf(context, operation, { out }));
    const together = this.#way(up) === way && launchable([first, second]).length === 1;
    if (together && (way === "rounded" || way === "floats")) {
      const { launches, input } = this.#input(norm, gate, way, handed);
      if (input.form === "half") throw new TypeError("a streamed product does not take half rows");
      return [
        ...launches,
        streamedProducts(context, input, [first, second], {
          gated: activation.activation,
          ...(wanted?.form === "rounded" ? { rounded: wanted } : {}),
        }),
      ];
    }
    if (together && way === "tile" && first.type === second.type) {
      const { launches, input } = this.#input(norm, gate, way, handed);
      if (input.form !== "half") throw new TypeError("a tiled product takes half rows");
      return [...launches, tiledProducts(context, input, [first, second], activation.activation)];
    }
    return this.#gatedApart({ norm, gate, up, activation }, handed, wanted);
  }

  /** Gate and up one after the other, then the gated linear unit. */
  #gatedApart(
    { norm, gate, up, activation: { activation, out: result } }: Omit<GatedMatmulGroup, "form" | "parts">,
    handed: ProductInput | undefined,
    wanted: ProductInput | undefined,
  ): readonly StepItem[] {
    const context = this.#context;
    const operations = [gate, up];
    const out = context.matrix(result);
    const places = [context.regions.gate, context.regions.up].map((place) => ({ ...out, place, stride: out.width }));
    const areAlike = gate.softCap === up.softCap;
    if (areAlike && operations.every((operation) => this.#way(operation) === "library")) {
      const { launches, input } = this.#input(norm, operations[0], "library", handed);
      const matmuls = operations.map((operation, index) => productOf(context, operation, { out: places[index] }));
      return [...launches, ...gatedByLibrary(context, input, { activation, matmuls, out }, wanted)];
    }
    const products = operations.map((operation, index) => ({
      operation,
      product: productOf(context, operation, { out: places[index] }),
    }));
    const unit = gluRows(context, activation, { gate: places[0], up: places[1], out });
    return [...this.#products(norm, products, handed), unit];
  }

  /** The form in which this group could take its input from the group before, if all its products agree. */
  wantedForm(group: Group): InputForm | undefined {
    if (group.form !== "matmuls" && group.form !== "matmul-add" && group.form !== "gated-matmul") return undefined;
    if (group.form !== "matmul-add" && group.norm !== undefined) return undefined;
    const forms = new Set(productsOf(group).map((product) => formFor(this.#way(product))));
    const [form] = forms;
    return forms.size === 1 ? form : undefined;
  }

  /** Where the group before leaves a value for this group. */
  handedPlace(form: InputForm, value: Pick<MatrixPlace, "rows" | "width">): ProductInput {
    return inputPlace(this.#context, form, this.#context.regions.handedInput, value);
  }

  /** Whether `gated` can leave its result in this form. */
  gatedGives({ gate, up }: GatedMatmulGroup, form: InputForm): boolean {
    const ways = new Set([this.#way(gate), this.#way(up)]);
    if (form === "rounded")
      return ways.size === 1 && ways.has("rounded") && launchableTogether(this.#context, gate, up);
    return form === "half" && ways.size === 1 && ways.has("library") && gate.softCap === up.softCap;
  }

  #products(
    norm: RmsNormOperation | undefined,
    products: readonly { readonly operation: MatmulOperation; readonly product: Product }[],
    handed: ProductInput | undefined,
  ): readonly StepItem[] {
    const items: StepItem[] = [];
    for (const way of ["rounded", "floats", "tile", "library"] as const) {
      const own = products.filter(({ operation }) => this.#way(operation) === way);
      if (own.length === 0) continue;
      const { launches, input } = this.#input(norm, own[0].operation, way, handed);
      items.push(
        ...launches,
        ...this.#multiply(
          way,
          input,
          own.map(({ product }) => product),
        ),
      );
    }
    return items;
  }

  #multiply(way: ProductWay, input: ProductInput, products: readonly Product[]): readonly StepItem[] {
    const context = this.#context;
    if (way === "library") return products.flatMap((product) => libraryProduct(context, input, product));
    return launchable(products).map((together): LaunchSpec => {
      return input.form === "half"
        ? tiledProducts(context, input, together)
        : streamedProducts(context, input, together);
    });
  }

  #input(
    norm: RmsNormOperation | undefined,
    { input }: MatmulOperation,
    way: ProductWay,
    handed: ProductInput | undefined,
  ): { readonly launches: readonly LaunchSpec[]; readonly input: ProductInput } {
    if (handed !== undefined) return { launches: [], input: handed };
    return prepareInput(this.#context, this.#context.matrix(norm?.input ?? input), norm, formFor(way));
  }

  #way({ weight, input }: MatmulOperation): ProductWay {
    const { facts, values } = this.#context;
    return productWay(facts.weights[weight], classOf(this.#size, values[input].rows), {
      deterministic: facts.deterministic,
      library: this.#size.library,
    });
  }
}

function launchableTogether(context: LoweringContext, gate: MatmulOperation, up: MatmulOperation): boolean {
  const types = [gate, up].flatMap(({ bias }) => (bias === undefined ? [] : [context.typeOf(bias)]));
  return new Set(types).size <= 1 && gate.softCap === up.softCap;
}
