// Attributes of operations as defines of their kernels. An attribute that an operation does not have gives no define,
// so that models without it are compiled to the same modules as before it existed.

import type { Activation, AttentionOperation, ExpertGating, RouteExpertsOperation } from "../../../graph/operation.js";
import type { Defines } from "../kernels/kernel-source.js";

/** ACTIVATION of kernels/device/activation.h. */
const ACTIVATIONS: Readonly<Record<Activation, number>> = {
  silu: 0,
  gelu: 1,
  sigmoid: 2,
  "swiglu-oai": 3,
  relu: 4,
  identity: 5,
};

/** What a gated linear unit is compiled with. */
export function activationDefines(activation: Activation): Defines {
  return activation === "silu" ? {} : { ACTIVATION: ACTIVATIONS[activation] };
}

/** What a matmul with this logit soft-cap is compiled with. */
export function softCapDefines(softCap: number | undefined): Defines {
  return softCap === undefined ? {} : { SOFT_CAP: softCap };
}

/** What the kernels that compute scores are compiled with: kernels/attention/attributes.h and kv-cache.h. */
export function attentionDefines(operation: AttentionOperation): Defines {
  const { softCap, valuesInKeys = false } = operation;
  return {
    ...mergeDefines(operation),
    ...softCapDefines(softCap),
    ...temperatureDefines(operation),
    ...(valuesInKeys ? { VALUES_IN_KEYS: 1 } : {}),
  };
}

function temperatureDefines({
  temperature,
  temperatureLength = 1,
  temperatureOffset = 0,
}: AttentionOperation): Defines {
  if (temperature === undefined) return {};
  return {
    TEMPERATURE: temperature,
    TEMPERATURE_LENGTH: temperatureLength,
    ...(temperatureOffset === 0 ? {} : { TEMPERATURE_OFFSET: temperatureOffset }),
  };
}

/** What choices of kernel parameters for attention depend on: cache, heads, and how far a token sees. */
export function attentionKey(
  { options }: { readonly options: { readonly limits: { readonly kvCacheType: string } } },
  { heads, kvHeads, keyWidth, valueWidth, window, chunk }: AttentionOperation,
): string {
  const reach =
    window === undefined && chunk === undefined ? "" : ` in${Math.min(window ?? Infinity, chunk ?? Infinity)}`;
  return `${options.limits.kvCacheType} ${heads}of${kvHeads}x${keyWidth}+${valueWidth}${reach}`;
}

/** What the kernel that merges the splits of attention is compiled with. */
export function mergeDefines({ window, chunk, first, sinks }: AttentionOperation): Defines {
  return {
    ...(first === undefined ? {} : { FIRST: first }),
    ...(window === undefined ? {} : { WINDOW: window }),
    ...(chunk === undefined ? {} : { CHUNK: chunk }),
    ...(sinks === undefined ? {} : { SINKS: 1 }),
  };
}

/** GATING of kernels/rows/expert-choice.h. */
const GATINGS: Readonly<Record<ExpertGating, number>> = {
  softmax: 0,
  sigmoid: 1,
  "softmax-selected": 2,
  "sqrt-softplus": 3,
  "sigmoid-selected": 4,
};

/** What the choice among `experts` experts is compiled with: kernels/rows/expert-choice.h. */
export function routingDefines(
  { used, gating, bias, groups = 1, groupsUsed = groups, renormalize, scale }: RouteExpertsOperation,
  experts: number,
): Defines {
  // Weights that are divided by their sum are the softmax over the chosen experts, if probabilities choose as logits do.
  const isSelected = gating === "softmax" && renormalize && bias === undefined && groups === 1;
  return {
    EXPERTS: experts,
    USED: used,
    GATING: GATINGS[isSelected ? "softmax-selected" : gating],
    ...(bias === undefined ? {} : { SELECTION_BIAS: 1 }),
    ...(groups === 1 ? {} : { GROUPS: groups, GROUPS_USED: groupsUsed }),
    ...(renormalize && !isSelected ? { RENORMALIZE: 1 } : {}),
    ...(scale === undefined ? {} : { ROUTING_SCALE: scale }),
  };
}
