// `rocmforge synth`: writes a model with the shape of a real one and random weights, for benchmarks.

import { stat } from "node:fs/promises";
import { writeGguf } from "../../gguf/writer.js";
import { layoutByName } from "../../quant/layout.js";
import { defineCommand } from "../command.js";
import { countOf, formatBytes, formatDuration, printable } from "../format.js";
import { Interrupt } from "../interrupt.js";
import { GENERAL_OPTIONS } from "../model-options.js";
import { type OptionTable, wrongValue } from "../option-table.js";
import { Progress } from "../progress.js";
import { chooseName } from "../synth/choice.js";
import { synthPlan } from "../synth/model-plan.js";
import { SHAPE_NAMES, SHAPES } from "../synth/shape.js";
import { MIX_NAMES } from "../synth/type-mix.js";
import { readText } from "../text-input.js";

const NAME = "synth";
const DEFAULT_TYPE = "Q4_K_M";
const DEFAULT_SEED = 1;
const MAX_LAYERS = 256;

const OPTIONS = {
  shape: {
    kind: "text",
    placeholder: "NAME",
    values: SHAPE_NAMES,
    description: `the model whose shape to use: ${SHAPE_NAMES.join(", ")}`,
  },
  type: {
    kind: "text",
    placeholder: "TYPE",
    values: MIX_NAMES,
    description: "block type or mix of types, as llama.cpp names them",
    fallback: DEFAULT_TYPE,
  },
  out: {
    kind: "path",
    short: "o",
    placeholder: "FILE",
    description: "the file to write; an existing file is replaced",
  },
  seed: {
    kind: "count",
    placeholder: "NUMBER",
    range: { from: 0, to: Number.MAX_SAFE_INTEGER },
    description: "the same seed gives the same file",
    fallback: DEFAULT_SEED,
  },
  layers: {
    kind: "count",
    placeholder: "COUNT",
    range: { from: 1, to: MAX_LAYERS },
    description: "number of layers, if not the real model's",
  },
  "draft-head": {
    kind: "flag",
    description: "with a draft head (MTP) after the layers, for the architectures whose heads can be run",
  },
  "chat-template": {
    kind: "path",
    placeholder: "FILE",
    description: "a Jinja template for chats, which becomes part of the model file",
  },
  json: { kind: "flag", description: "print one JSON object" },
  ...GENERAL_OPTIONS,
} as const satisfies OptionTable;

/** The command `synth`. */
export const synth = defineCommand({
  name: NAME,
  summary: "writes a model with a real model's shape and random weights",
  about: [
    "For benchmarks: it needs the memory and the time of the real model and generates nonsense. The vocabulary is synthetic.",
    `Types: ${MIX_NAMES.join(", ")}.`,
  ],
  positionals: [],
  options: OPTIONS,
  examples: [
    {
      what: "a file of the size of Llama-3.2-1B in Q4_K_M",
      line: "rocmforge synth --shape llama3-1b --type Q4_K_M --out llama3-1b.gguf",
    },
    {
      what: "two layers of a large model",
      line: "rocmforge synth --shape llama3-8b --type Q8_0 --layers 2 --out part.gguf",
    },
  ],
  async run(
    {
      shape: shapeText,
      type: typeText = DEFAULT_TYPE,
      out,
      seed = DEFAULT_SEED,
      layers,
      "draft-head": draftHead,
      "chat-template": templatePath,
      json,
    },
    _positionals,
    { output },
  ) {
    const name = chooseName(NAME, "shape", SHAPE_NAMES, shapeText);
    const mix = chooseName(NAME, "type", MIX_NAMES, typeText);
    if (out === undefined) throw wrongValue(NAME, "out", "a file to write: --out FILE", "nothing");
    const shape = { ...SHAPES[name], ...(layers === undefined ? {} : { layers }) };
    const template = templatePath === undefined ? {} : { chatTemplate: await readText(templatePath) };

    using interrupt = new Interrupt();
    using progress = new Progress("making the vocabulary");
    const start = performance.now();
    const beforeChunk = (): void => interrupt.signal.throwIfAborted();
    const plan = synthPlan(name, shape, { mix, seed, draftHead, ...template, beforeChunk });
    const totalBytes = plan.tensors.reduce((sum, { type, shape: [inputs, outputs = 1] }) => {
      const { blockElements, blockBytes } = layoutByName(type);
      return sum + ((inputs * outputs) / blockElements) * blockBytes;
    }, 0);
    progress.update(`writing ${formatBytes(totalBytes)}`);
    try {
      await writeGguf(out, plan);
    } catch (error) {
      if (!interrupt.signal.aborted) throw error;
      progress.end();
      process.stderr.write("rocmforge: interrupted; nothing was written\n");
      return interrupt.exitStatus;
    }
    progress.end();
    const result = {
      path: out,
      shape: name,
      type: mix,
      seed,
      layers: shape.layers,
      tensors: plan.tensors.length,
      sizeBytes: (await stat(out)).size,
    };
    if (json) await output.writeJson(result);
    else {
      const { tensors, sizeBytes } = result;
      const seconds = formatDuration(performance.now() - start);
      await output.write(
        `${printable(out)}: ${name} ${mix}, ${countOf(tensors, "tensor")}, ${formatBytes(sizeBytes)}, written in ${seconds}\n`,
      );
    }
    return 0;
  },
});
