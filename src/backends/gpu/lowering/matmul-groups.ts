// Groups of matmuls as launches: their inputs made once for each form that is wanted, matrices of one input together,
// gate and up as one where they can be, and a result handed on in the form that its only reader wants.

import type { SharedExpert } from "../../../graph/expert-network.js";
import type { GatedMatmulGroup, Group, MatmulAddGroup, MatmulsGroup, WeightedRmsNorm } from "../../../graph/fusion.js";
import type { MatmulOperation, ValueId } from "../../../graph/operation.js";
import type { LaunchSpec } from "./launch.js";
import { type MatmulMethod, matmulMethod } from "./matmul-selection.js";
import { classOf, type LoweringContext, type LoweringSize, type ValuePlace } from "./context.js";
import {
  canNormThere,
  formFor,
  type HandedInput,
  type InputForm,
  inputPlace,
  prepareInput,
  type MatmulInput,
} from "./inputs.js";
import { gatedBlasMatmuls, blasMatmul } from "./blas-matmuls.js";
import { normsApart, takesLanes } from "./lane-gemv-shape.js";
import { launchable, type Matmul, MAX_LAUNCHED, matmulOf, type MatmulTarget } from "./matmul.js";
import { capacityOf, matmulsOf, quantizedPlace } from "./regions.js";
import { gluRows } from "./glu.js";
import { gemvLaunch, type HandedRow } from "./gemv.js";
import { gemmLaunch } from "./gemm.js";
import { takesInt8Gemm } from "./int8-gemm.js";
import { wideGemmLaunch, type WideGemmOptions } from "./wide-gemm.js";
import { SLAB_COLUMNS, takesWideGemm } from "./wide-gemm-shape.js";
import { gemmFloatLaunches } from "./gemm-float.js";
import { type SomeOperationLowerings, supportsFloats } from "./operation-lowering.js";
import type { StepItem } from "./step-item.js";

/** A matmul whose result goes to a place of its own. */
export interface TargetedMatmul {
  readonly operation: MatmulOperation;
  readonly out: ValuePlace;
}

export class MatmulLowering {
  readonly #context: LoweringContext;
  readonly #size: LoweringSize;

  get size(): LoweringSize {
    return this.#size;
  }

  constructor(context: LoweringContext, size: LoweringSize) {
    this.#context = context;
    this.#size = size;
  }

  /** `handed` is this group's input, if the group before has written it in the right form. */
  project(
    { norm, matmuls }: Pick<MatmulsGroup, "norm" | "matmuls">,
    handed: MatmulInput | undefined,
    prepared?: HandedRow,
  ): readonly StepItem[] {
    const context = this.#context;
    const targeted = matmuls.map((operation) => ({
      operation,
      matmul: matmulOf(context, operation, { out: context.matrix(operation.out) }),
    }));
    return this.#matmuls(norm, targeted, handed, { prepared });
  }

  /** A matmul whose input is there as f16 and as f32; and `other`, of weights of the same type, beside it. */
  projectNormed(
    operation: MatmulOperation,
    halves: Extract<MatmulInput, { form: "half" }>,
    { place, stride }: ValuePlace,
    other?: TargetedMatmul,
  ): readonly StepItem[] {
    const context = this.#context;
    const form = formFor(this.#method(operation, halves));
    const handed = form === "half" ? halves : form === "floats" ? { form, input: place, stride } : undefined;
    const targeted = [{ operation, out: context.matrix(operation.out) }, ...(other === undefined ? [] : [other])];
    const matmuls = targeted.map(({ operation: each, out }) => ({
      operation: each,
      matmul: matmulOf(context, each, { out }),
    }));
    return this.#matmuls(undefined, matmuls, handed);
  }

  /** `handed`: what is left for the next group besides the sum. */
  projectAdd(
    { matmul, residual, sum }: MatmulAddGroup,
    input: MatmulInput | undefined,
    handed?: HandedRow,
  ): readonly StepItem[] {
    const target = { out: this.#context.matrix(sum.out), residual: this.#context.matrix(residual) };
    const matmuls = [{ operation: matmul, matmul: matmulOf(this.#context, matmul, target) }];
    return this.#matmuls(undefined, matmuls, input, { handed });
  }

  /**
   * What a matmul with a residual leaves of single rows for the norm that the next group begins with: where the device has such
   * kernels, and its own input does not lie where the next one's is made.
   */
  preparedFor(group: Group, input: HandedInput | undefined, next: Group | undefined): HandedRow | undefined {
    const context = this.#context;
    if (group.form !== "matmul-add" || input?.form !== "quantized" || this.#method(group.matmul, input) !== "gemv")
      return undefined;
    if (next?.form !== "matmuls" && next?.form !== "gated-matmul") return undefined;
    const { norm } = next;
    if (norm?.input !== group.sum.out || !matmulsOf(next).some((matmul) => this.#method(matmul) === "gemv"))
      return undefined;
    const row = context.matrix(norm.input);
    const widths = [context.values[group.matmul.input].width, row.width];
    if (!canNormThere(context, row) || !widths.every((width) => takesLanes(context.options, width))) return undefined;
    const { input: region, squares } = context.regions;
    return {
      quantized: quantizedPlace(region, capacityOf(context.options, row.rows), row.width),
      squares,
      weight: context.weight(norm.weight),
      weightType: context.typeOf(norm.weight),
    };
  }

  /** Gate and up; writes the result to `wanted` if given, else as f32 rows. */
  gated(
    { norm, gate, up, activation }: GatedMatmulGroup,
    handed: MatmulInput | undefined,
    wanted: MatmulInput | undefined,
    prepared?: HandedRow,
  ): readonly StepItem[] {
    const context = this.#context;
    const out = context.matrix(activation.out);
    const method = this.#method(gate, handed);
    const [first, second] = [gate, up].map((operation) => matmulOf(context, operation, { out }));
    const together = this.#method(up, handed) === method && launchable([first, second], 2).length === 1;
    if (together && (method === "gemv" || method === "gemv-float")) {
      const { launches, input } = this.#input(norm, gate, method, handed, prepared);
      if (input.form === "half" || input.form === "panels") throw new TypeError("a GEMV does not take f16 rows");
      return [
        ...launches,
        gemvLaunch(context, input, [first, second], {
          gated: activation.activation,
          ...(wanted?.form === "quantized" ? { quantized: wanted } : {}),
        }),
      ];
    }
    const isGemm = method === "gemm" || method === "int8-gemm" || method === "wide-gemm";
    if (together && isGemm && first.type === second.type) {
      const { launches, input } = this.#input(norm, gate, method, handed);
      const panels = wanted?.form === "panels" ? wanted : undefined;
      return [...launches, anyGemm(context, input, [first, second], { gated: activation.activation, panels })];
    }
    return this.#gatedApart({ norm, gate, up, activation }, handed, wanted, prepared);
  }

  /** A dense gated network from its norm to the sum with a residual, where values in between have no memory. */
  gatedDown(
    norm: WeightedRmsNorm,
    { gate, up, activation, down }: SharedExpert,
    target: MatmulTarget,
  ): readonly StepItem[] {
    const context = this.#context;
    const form = formFor(this.#method(down));
    const parts = [gate, up, activation];
    const group: GatedMatmulGroup = { form: "gated-matmul", norm, gate, up, activation, parts };
    const isHanded = this.gatedGives(group, form);
    const handed = isHanded ? this.handedPlace(form, context.values[activation.out]) : undefined;
    const matmul = { operation: down, matmul: matmulOf(context, down, target) };
    return [...this.gated(group, undefined, handed), ...this.#matmuls(undefined, [matmul], handed)];
  }

  /** Gate and up one after the other, then the gated linear unit. */
  #gatedApart(
    { norm, gate, up, activation: { activation, out: result } }: Omit<GatedMatmulGroup, "form" | "parts">,
    handed: MatmulInput | undefined,
    wanted: MatmulInput | undefined,
    prepared: HandedRow | undefined,
  ): readonly StepItem[] {
    const context = this.#context;
    const operations = [gate, up];
    const out = context.matrix(result);
    const places = [context.regions.gate, context.regions.up].map((place) => ({ ...out, place, stride: out.width }));
    const areAlike = gate.softCap === up.softCap;
    if (areAlike && operations.every((operation) => this.#method(operation) === "blas")) {
      const { launches, input } = this.#input(norm, operations[0], "blas", handed);
      const matmuls = operations.map((operation, index) => matmulOf(context, operation, { out: places[index] }));
      return [...launches, ...gatedBlasMatmuls(context, input, { activation, matmuls, out }, wanted)];
    }
    const matmuls = operations.map((operation, index) => ({
      operation,
      matmul: matmulOf(context, operation, { out: places[index] }),
    }));
    const unit = gluRows(context, activation, { gate: places[0], up: places[1], out });
    return [...this.#matmuls(norm, matmuls, handed, { prepared }), unit];
  }

  /** The form in which this group could take its input from the group before, if all its matmuls agree. */
  wantedForm(group: Group): InputForm | undefined {
    if (group.form !== "matmuls" && group.form !== "matmul-add" && group.form !== "gated-matmul") return undefined;
    if (group.form !== "matmul-add" && group.norm !== undefined) return undefined;
    const forms = new Set(matmulsOf(group).map((matmul) => formFor(this.#method(matmul))));
    const [form] = forms;
    return forms.size === 1 ? form : undefined;
  }

  /** The norm that this group begins with, if it is of this value and all its matmuls can take f16 rows. */
  wantedNorm(group: Group | undefined, value: ValueId): WeightedRmsNorm | undefined {
    if (group?.form !== "matmuls" && group?.form !== "gated-matmul") return undefined;
    if (group.norm?.input !== value) return undefined;
    const takesHalves = matmulsOf(group).every((matmul) => {
      const form = formFor(this.#method(matmul));
      return form === "half" || form === "panels";
    });
    return takesHalves ? group.norm : undefined;
  }

  /** Where the group before leaves a value for this group. */
  handedPlace(form: InputForm, value: Pick<ValuePlace, "rows" | "width">): MatmulInput {
    return inputPlace(this.#context, form, this.#context.regions.handedInput, value);
  }

  /** Whether `gated` can leave its result in this form. */
  gatedGives({ gate, up }: GatedMatmulGroup, form: InputForm): boolean {
    const methods = new Set([this.#method(gate), this.#method(up)]);
    if (form === "quantized")
      return methods.size === 1 && methods.has("gemv") && launchableTogether(this.#context, gate, up);
    if (form === "panels") {
      const [gateType, upType] = [gate, up].map(({ weight }) => this.#context.typeOf(weight));
      const { width } = this.#context.values[gate.out];
      const areWhole = width % SLAB_COLUMNS === 0 && gateType === upType;
      return areWhole && methods.size === 1 && methods.has("wide-gemm") && launchableTogether(this.#context, gate, up);
    }
    return form === "half" && methods.size === 1 && methods.has("blas") && gate.softCap === up.softCap;
  }

  #matmuls(
    norm: WeightedRmsNorm | undefined,
    matmuls: readonly { readonly operation: MatmulOperation; readonly matmul: Matmul }[],
    handed: MatmulInput | undefined,
    {
      prepared,
      handed: left,
    }: { readonly prepared?: HandedRow | undefined; readonly handed?: HandedRow | undefined } = {},
  ): readonly StepItem[] {
    const items: StepItem[] = [];
    for (const method of ["gemv", "gemv-float", "gemm", "int8-gemm", "wide-gemm", "gemm-float", "blas"] as const) {
      const own = matmuls.filter(({ operation }) => this.#method(operation, handed) === method);
      if (own.length === 0) continue;
      const { launches, input } = this.#input(norm, own[0].operation, method, handed, prepared);
      items.push(
        ...launches,
        ...this.#multiply(
          method,
          input,
          own.map(({ matmul }) => matmul),
          left,
        ),
      );
    }
    return items;
  }

  #multiply(
    method: MatmulMethod,
    input: MatmulInput,
    matmuls: readonly Matmul[],
    handed: HandedRow | undefined,
  ): readonly StepItem[] {
    const context = this.#context;
    if (method === "blas") return matmuls.flatMap((matmul) => blasMatmul(context, input, matmul));
    if (method === "gemm-float" && input.form === "floats") return gemmFloatLaunches(context, input, matmuls);
    if (method === "int8-gemm" || input.form === "half" || input.form === "panels")
      return launchable(matmuls, MAX_LAUNCHED.gemm).map((together) => anyGemm(context, input, together));
    return launchable(matmuls, MAX_LAUNCHED.gemv).map((together) =>
      gemvLaunch(context, input, together, handed === undefined ? {} : { handed }),
    );
  }

  #input(
    norm: WeightedRmsNorm | undefined,
    { input, weight }: MatmulOperation,
    method: MatmulMethod,
    handed: MatmulInput | undefined,
    prepared?: HandedRow,
  ): { readonly launches: readonly LaunchSpec[]; readonly input: MatmulInput } {
    if (handed !== undefined) return { launches: [], input: handed };
    const source = this.#context.matrix(norm?.input ?? input);
    const squares = prepared?.squares;
    const apart = squares === undefined && normsApart(this.#context.options, this.#context.options.weights[weight]);
    return prepareInput(this.#context, source, norm, formFor(method), { squares, apart });
  }

  /** `handed`: half rows that are there already are multiplied as they are. */
  #method({ weight, input, out }: MatmulOperation, handed?: MatmulInput): MatmulMethod {
    const { options, values, choices } = this.#context;
    const batch = classOf(this.#size, values[input].rows);
    return matmulMethod(options.weights[weight], batch, {
      deterministic: options.deterministic,
      blas: this.#size.blas,
      router: this.#context.isRouted(out),
      exact: options.fused.program.kv.states !== undefined,
      wide: handed?.form !== "half" && takesWideGemm(options, options.weights[weight]),
      int8: handed?.form !== "half" && takesInt8Gemm(options, options.weights[weight], batch, choices),
    });
  }
}

/** A GEMM, by the kernel that takes rows of this form in this order. */
function anyGemm(
  context: LoweringContext,
  input: MatmulInput,
  matmuls: readonly Matmul[],
  options: WideGemmOptions = {},
): LaunchSpec {
  if (input.form === "panels") return wideGemmLaunch(context, input, matmuls, options);
  if (input.form === "floats") throw new TypeError("a GEMM takes no f32 rows");
  return gemmLaunch(context, input, matmuls, options.gated);
}

function launchableTogether(context: LoweringContext, gate: MatmulOperation, up: MatmulOperation): boolean {
  const types = [gate, up].flatMap(({ bias }) => (bias === undefined ? [] : [context.typeOf(bias)]));
  return new Set(types).size <= 1 && gate.softCap === up.softCap;
}

export const MATMUL_LOWERINGS = {
  matmul: {
    supports: ({ scale }, weights) => supportsFloats("scale", scale === undefined ? undefined : weights[1], true),
    lower: (_, operation, { matmuls }) => matmuls.project({ norm: undefined, matmuls: [operation] }, undefined),
  },
} satisfies SomeOperationLowerings;
