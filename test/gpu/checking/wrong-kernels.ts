// Wrong kernels for tests of the checker: the emulated compiler breaks the modules of one file, and a small model that takes
// them generates text on the backend that checks its kernels.

import { join } from "node:path";
import { type GpuBackend, openGpuBackend } from "../../../src/backends/gpu/backend.js";
import { createCpuBackend } from "../../../src/backends/cpu/backend.js";
import type { Backend } from "../../../src/backends/contract.js";
import { u32 } from "../../../src/gguf/entry.js";
import { writeGguf } from "../../../src/gguf/writer.js";
import { Model } from "../../../src/model/model.js";
import { decodeTensor, encodeTensor } from "../../../src/quant/codec.js";
import { remembered } from "../../support/remembered.js";
import type { TemporaryFolder } from "../../support/temporary-folder.js";
import { familyModel } from "../../conformance/models/family-model.js";
import { randomModel, type RandomModel } from "../../conformance/models/random-model.js";
import { settingVariables } from "../emulator/build.js";
import { emulatedHip, libraryCopy, type WaveSize } from "../emulated-hip.js";
import { pretending } from "../pretended-device.js";

/** 41 tokens: more than small and medium batches, and attention by tiles. */
export const PROMPT = "A story of some length, for tiled kernels";
export const NEW_TOKENS = 4;

/** A model of a few thousand weights. */
export type SmallModel = "dense" | "wide" | "experts" | "hybrid";

const MODELS: Readonly<Record<SmallModel, () => RandomModel>> = {
  dense: () => denseModel(64, 96),
  /** Rows as products of bytes have them. */
  wide: () => denseModel(128, 128),
  experts: () =>
    quantized(
      familyModel(5, {
        architecture: "qwen3moe",
        layers: 1,
        width: 64,
        heads: 2,
        kvHeads: 1,
        headWidth: 32,
        feedForward: 64,
        keys: () => [u32("expert_count", 8), u32("expert_used_count", 2), u32("expert_feed_forward_length", 64)],
      }),
    ),
  hybrid: () =>
    familyModel(9, {
      architecture: "qwen35",
      layers: 2,
      width: 64,
      heads: 2,
      kvHeads: 1,
      headWidth: 32,
      rotaryWidth: 16,
      feedForward: 64,
      keys: () => [
        u32("full_attention_interval", 2),
        u32("ssm.conv_kernel", 4),
        u32("ssm.state_size", 16),
        u32("ssm.group_count", 2),
        u32("ssm.time_step_rank", 4),
        u32("ssm.inner_size", 64),
      ],
    }),
};

function denseModel(width: number, feedForward: number): RandomModel {
  return randomModel({
    seed: 3,
    architecture: "llama",
    types: ["Q8_0"],
    width,
    heads: 2,
    kvHeads: 1,
    feedForward,
    layers: 1,
    vocabulary: 300,
    context: 512,
    epsilon: 1e-5,
  });
}

/** The same model with its wide matrices in 8 bits; routers stay as they are. */
function quantized(model: RandomModel): RandomModel {
  const tensors = model.tensors.map((tensor) => {
    const elements = tensor.shape.reduce((total, dimension) => total * dimension, 1);
    if (tensor.shape.length < 2 || tensor.shape[0] % 32 !== 0 || tensor.name.includes("gate_inp")) return tensor;
    return {
      ...tensor,
      type: "Q8_0" as const,
      data: encodeTensor("Q8_0", decodeTensor(tensor.type, tensor.data, elements)),
    };
  });
  return { ...model, tensors };
}

/** What to break, and in which model it shows. */
export interface WrongKernel {
  readonly family: string;
  readonly model: SmallModel;
  /** `file:fault`, see test/gpu/emulator/settings.h. */
  readonly fault: string;
}

/** What a generation with a wrong kernel gave. */
export interface CheckedText {
  readonly text: string;
  readonly notices: readonly string[];
  /** Those that were there when the first text was delivered. */
  readonly noticesBeforeText: readonly string[];
  /** How often kernels were compared with a CPU. */
  readonly checks: number;
}

interface DeviceSettings {
  /** Of the compiler; absent: it has none. */
  readonly fault?: string;
  readonly waveSize?: WaveSize;
  /** What the device says it is; absent: what the emulated one is. */
  readonly architecture?: string;
  /** The folder for compiled kernels and records; a new one by default. */
  readonly cache?: string;
  /** Whether kernels are checked; they are by default. */
  readonly checked?: boolean;
}

/** Runs small models on emulated devices that check their kernels. */
export class CheckedDevices {
  readonly #folder: TemporaryFolder;
  readonly #path = remembered((model: SmallModel) => this.#write(model));
  #caches = 0;

  constructor(folder: TemporaryFolder) {
    this.#folder = folder;
  }

  /** A folder for compiled kernels and records that no test has used. */
  newCache(): string {
    return this.#folder.file(`cache-${this.#caches++}`);
  }

  /** The text of a model on a device with these settings. */
  async generate(model: SmallModel, settings: DeviceSettings = {}): Promise<CheckedText> {
    return await this.generateFrom(await this.#path(model), settings);
  }

  /** The same for the model in a file. */
  async generateFrom(path: string, settings: DeviceSettings = {}): Promise<CheckedText> {
    let checks = 0;
    await using backend = this.#open(settings, () => checks++);
    await using opened = await Model.open(path, backend, { contextTokens: 256 });
    let text = "";
    let before: readonly string[] | undefined;
    for await (const delta of opened.generate(PROMPT, { maxTokens: NEW_TOKENS, temperature: 0 })) {
      before ??= backend.notices();
      text += delta.text;
    }
    return { text, noticesBeforeText: before ?? [], notices: backend.notices(), checks };
  }

  #open(
    { fault, waveSize = 32, architecture, cache = this.newCache(), checked = true }: DeviceSettings,
    onCheck: () => void,
  ): GpuBackend {
    const name = `checked-${waveSize}${fault === undefined ? "" : `-${fault.replaceAll(/\W+/g, "-")}`}`;
    const settings = { waveSize, wrongCode: fault === undefined ? [] : [fault] };
    const hip = emulatedHip(name, settings);
    // For the processes that compile, and for commands.
    Object.assign(process.env, settingVariables(settings), {
      ROCMFORGE_HIP_LIBRARY: libraryCopy(name),
      ROCMFORGE_KERNEL_CACHE: cache,
    });
    const openOracle = async (): Promise<Backend> => {
      onCheck();
      return createCpuBackend({ threads: 2 });
    };
    const opened = architecture === undefined ? hip : pretending(hip, architecture);
    return openGpuBackend({ ...opened, name: "hip", backendOptions: {}, ...(checked ? { openOracle } : {}) });
  }

  async #write(model: SmallModel): Promise<string> {
    const path = join(this.#folder.path, `${model}.gguf`);
    await writeGguf(path, MODELS[model]());
    return path;
  }
}
