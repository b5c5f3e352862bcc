// What a tensor is for, judged by its name alone, so that the bytes of any file can be grouped, supported or not.

/** The first match counts; names end in `.weight`, `.bias` and the like. */
const ROLES: readonly (readonly [role: string, pattern: RegExp])[] = [
  ["norms", /norm|(?:^|[._])ln_/],
  ["experts", /exps?\b|expert|_shexp|gate_inp/],
  ["attention", /attn|attention/],
  ["feed-forward", /ffn|mlp|feed_forward/],
  ["state space", /ssm|time_mix|channel_mix/],
  ["embedding", /embd|embed|(?:^|\.)wte\b|(?:^|\.)wpe\b/],
  ["output", /(?:^|\.)(?:output|lm_head|classifier)\b|^cls\b/],
];

/** The role of a tensor whose name matches no pattern. */
const OTHER_ROLE = "other";

/** The role of a tensor by its name. */
export function roleOf(tensorName: string): string {
  return ROLES.find(([, pattern]) => pattern.test(tensorName))?.[0] ?? OTHER_ROLE;
}
