// `rocmforge plan`: what a model would run and allocate on a backend: layers, operations, memory. Loads no tensor.

import { LEAST_STATE_SLOTS } from "../../backends/cache-size.js";
import { createBackend } from "../../backends/registry.js";
import { openPlan } from "../../engine/open-plan.js";
import { kvGroups } from "../../graph/cache-groups.js";
import { countParameters } from "../../graph/parameter-count.js";
import type { ExecutionPlan } from "../../plan/execution-plan.js";
import { defineCommand } from "../command.js";
import { countOf, describeCount, formatBytes, formatTable, printable } from "../format.js";
import { describeLayers } from "../layer-text.js";
import { modelFile } from "../model-file.js";
import { backendOptions, GENERAL_OPTIONS, MODEL_OPTIONS, planOptions } from "../model-options.js";
import { nameOperation } from "../operation-names.js";
import type { OptionTable } from "../option-table.js";
import { describeProgram, reachText } from "../program-text.js";

const OPTIONS = {
  json: { kind: "flag", description: "print one JSON object" },
  dump: { kind: "flag", description: "print the whole program: every value, weight, slot and operation" },
  ...MODEL_OPTIONS,
  ...GENERAL_OPTIONS,
} as const satisfies OptionTable;

/** The command `plan`. */
export const plan = defineCommand({
  name: "plan",
  summary: "shows how a model would run and how much memory it would need",
  about: ["Equal layers are shown once. No tensor is loaded, so the model may be larger than the memory."],
  positionals: [],
  options: OPTIONS,
  examples: [
    { what: "layers, operations and memory", line: "rocmforge plan -m model.gguf" },
    { what: "the memory of a longer context, as JSON", line: "rocmforge plan -m model.gguf --ctx 32768 --json" },
    { what: "the program that the backends compile", line: "rocmforge plan -m model.gguf --dump" },
  ],
  async run(values, _positionals, { output }) {
    // A plan is also made of models that do not fit.
    const path = await modelFile({ ...values, force: true });
    await using backend = await createBackend(values.backend ?? "auto", backendOptions(values));
    const { loader, plan: planned } = await openPlan(path, backend, planOptions(values));
    await using _ = loader;
    if (values.json) await output.writeJson(planData(planned, values.dump));
    else await output.write(`${values.dump ? describeProgram(planned.program) : describePlan(planned, path)}\n`);
    return 0;
  },
});

function memoryOf(planned: ExecutionPlan) {
  const memory = planned.memory();
  const totalBytes = memory.residentWeightBytes + memory.kvCacheBytes + memory.scratchBytes;
  const { availableBytes } = planned.backend.memory();
  return { ...memory, totalBytes, availableBytes, fits: totalBytes <= availableBytes };
}

function planData(planned: ExecutionPlan, withProgram: boolean): object {
  const { parameters, config, backend, layers, program } = planned;
  return {
    architecture: parameters.architecture,
    parameters,
    backend: backend.description,
    ...config,
    layers: layers.map((layer) => ({
      name: layer.name,
      ...(layer.layer === undefined ? {} : { layer: layer.layer }),
      operations: layer.operations.map((operation) => nameOperation(program, operation)),
      weights: layer.weights.map(({ spec, tensor }) => ({
        name: spec.name,
        type: tensor?.descriptor.layout.name,
        shape: spec.shape,
        sizeBytes: tensor?.descriptor.sizeBytes,
      })),
    })),
    parameterCount: countParameters(program),
    memory: memoryOf(planned),
    kvCacheGroups: kvCacheGroups(planned),
    loadedTensors: planned.loadingStats().loadedTensors,
    ...(withProgram ? { program } : {}),
  };
}

/** The cache groups, with the positions that the engine keeps of one sequence of the whole context. */
function kvCacheGroups(planned: ExecutionPlan) {
  const { program, config } = planned;
  const blocks = planned.kvCacheBlocks(config.contextTokens);
  return kvGroups(program.kv).map((group, index) => ({ ...group, positions: blocks[index] * config.blockTokens }));
}

function describePlan(planned: ExecutionPlan, path: string): string {
  const { parameters, config, backend, layers, program } = planned;
  const { weightBytes, residentWeightBytes, kvCacheBytes, scratchBytes, totalBytes, availableBytes, fits } =
    memoryOf(planned);
  const stateBytes = LEAST_STATE_SLOTS * planned.memory().stateBytes;
  const groups = program.kv.groups === undefined ? [] : kvCacheGroups(planned);
  const rows = [
    [
      "weights",
      residentWeightBytes === 0 ? "mapped" : formatBytes(residentWeightBytes),
      `${formatBytes(weightBytes)} in the file`,
    ],
    [
      "KV cache",
      formatBytes(kvCacheBytes - stateBytes),
      `${countOf(config.contextTokens, "token")}, ${config.kvCacheType}, blocks of ${config.blockTokens}`,
    ],
    ...groups.map(({ layers: members, positions, ...reach }) => [
      `  ${countOf(members.length, "layer")}`,
      "",
      `${countOf(positions, "position")}: ${reachText(reach)}`,
    ]),
    ...(stateBytes === 0 ? [] : [["recurrent states", formatBytes(stateBytes), "of a sequence and a checkpoint, f32"]]),
    [
      "scratch",
      formatBytes(scratchBytes),
      `steps of at most ${countOf(Math.min(backend.maxStepTokens, config.contextTokens), "token")}`,
    ],
    [
      "together",
      formatBytes(totalBytes),
      fits ? "fits" : `does not fit: ${formatBytes(totalBytes - availableBytes)} are missing`,
    ],
    ["free now", formatBytes(availableBytes), ""],
  ];
  return [
    printable(path),
    `  architecture ${parameters.architecture}, ${countOf(parameters.layers.length, "layer")}, ${countOf(program.operations.length, "operation")}, ${countOf(program.weights.length, "weight")}`,
    `  parameters ${describeCount(countParameters(program))}`,
    `  context ${countOf(config.contextTokens, "token")} (the model's own: ${countOf(parameters.contextLength, "token")})`,
    `  backend ${backend.description.name}: ${backend.description.summary}`,
    "",
    describeLayers(program, layers),
    "",
    "memory",
    formatTable(rows, ["left", "right", "left"]),
  ].join("\n");
}
