// Options of the engine that the SDK has no setting for: `providerOptions.rocmforge` of a call. They come as JSON, so the
// bias of tokens is a record here.

import type { SharedV4ProviderOptions } from "@ai-sdk/provider";
import { checkOptions, flag, oneOf, type OptionChecks, unchecked } from "../model/checked-options.js";
import type { ChatOptions } from "../model/chat-options.js";
import { definedOptions, refuseValue } from "../options.js";
import { isPlainObject } from "../plain-object.js";

/** The name of the provider, and its key in `providerOptions` and `providerMetadata`. */
export const PROVIDER_NAME = "rocmforge";
const WHERE = `providerOptions.${PROVIDER_NAME}`;

/** How much a model reasons, for templates that distinguish it; "none" turns reasoning off. */
export type ReasoningEffort = "none" | "minimal" | "low" | "medium" | "high" | "xhigh" | "max";

const EFFORTS: readonly ReasoningEffort[] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];

/**
 * Options of a call that only this provider has, passed as `providerOptions: { rocmforge: … }`: samplers beside the SDK's,
 * a regular expression or grammar for the reply, variables of the chat template, and limits.
 */
export interface RocmForgeLanguageModelOptions extends Pick<
  ChatOptions,
  | "minP"
  | "typicalP"
  | "repeatPenalty"
  | "penaltyTokens"
  | "dryMultiplier"
  | "dryBase"
  | "dryAllowedLength"
  | "dryPenaltyTokens"
  | "xtcProbability"
  | "xtcThreshold"
  | "mirostat"
  | "mirostatTau"
  | "mirostatEta"
  | "minKeep"
  | "grammar"
  | "parallelToolCalls"
  | "templateOptions"
  | "ignoreEndOfGeneration"
  | "timeoutMs"
> {
  /** The whole text matches this regular expression. */
  readonly regex?: string;
  /** Added to the logits of tokens, by token id. */
  readonly logitBias?: Readonly<Record<string, number>>;
  /** Whether the model reasons before it replies; takes precedence over the SDK's `reasoning`. */
  readonly reasoning?: boolean;
  /** How much it reasons, for templates that distinguish it; takes precedence over the SDK's `reasoning`. */
  readonly reasoningEffort?: ReasoningEffort;
}

const CHECKS: OptionChecks<RocmForgeLanguageModelOptions> = {
  // `model.chat` checks what it is passed.
  minP: unchecked,
  typicalP: unchecked,
  repeatPenalty: unchecked,
  penaltyTokens: unchecked,
  dryMultiplier: unchecked,
  dryBase: unchecked,
  dryAllowedLength: unchecked,
  dryPenaltyTokens: unchecked,
  xtcProbability: unchecked,
  xtcThreshold: unchecked,
  mirostat: unchecked,
  mirostatTau: unchecked,
  mirostatEta: unchecked,
  minKeep: unchecked,
  regex: unchecked,
  grammar: unchecked,
  parallelToolCalls: unchecked,
  templateOptions: (where, option, value) => {
    if (value !== undefined && !isPlainObject(value)) refuseValue(where, option, "an object", value);
  },
  ignoreEndOfGeneration: unchecked,
  timeoutMs: unchecked,
  logitBias: (where, option, value) => {
    if (value !== undefined && !isPlainObject(value))
      refuseValue(where, option, "an object of biases by token id", value);
  },
  reasoning: flag,
  reasoningEffort: oneOf(EFFORTS),
};

/** The options of `model.chat` that a call's `reasoning` setting and `providerOptions` result in. */
export function engineOptions(
  providerOptions: SharedV4ProviderOptions | undefined,
  effort: ReasoningEffort | undefined,
): ChatOptions {
  const given: unknown = providerOptions?.[PROVIDER_NAME] ?? {};
  if (!isPlainObject(given)) refuseValue("providerOptions", PROVIDER_NAME, "an object", given);
  checkOptions<RocmForgeLanguageModelOptions>(WHERE, given, CHECKS);
  const {
    logitBias,
    reasoning,
    reasoningEffort = effort,
    templateOptions,
    ...passed
  }: RocmForgeLanguageModelOptions = given;
  return definedOptions({
    ...passed,
    reasoning: reasoning ?? (reasoningEffort === undefined ? undefined : reasoningEffort !== "none"),
    templateOptions:
      reasoningEffort === undefined ? templateOptions : { reasoning_effort: reasoningEffort, ...templateOptions },
    logitBias:
      logitBias &&
      new Map(Object.entries(logitBias).map(([token, bias]) => [token.trim() === "" ? NaN : Number(token), bias])),
  });
}
