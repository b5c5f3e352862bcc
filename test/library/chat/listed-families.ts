// Families whose calls are JSON behind marks, spelled by hand from their published templates (see docs/tool-calls.md).

import {
  GIVEN,
  hermes,
  json,
  list,
  NAME,
  python,
  think,
  THINK,
  TURN,
  turns,
  type Spoken,
} from "./spoken-conventions.js";

/** The families by name. */
export const LISTED: Readonly<Record<string, Spoken>> = {
  "Mistral, lists": {
    convention: "bracketed",
    controls: [...TURN, "[TOOL_CALLS]"],
    template: turns(
      `{{- '[TOOL_CALLS][{"name": "' ~ ${NAME} ~ '", "arguments": ' ~ (${GIVEN}) ~ ', "id": "' ~ c.id ~ '"}]' }}`,
    ),
    call: (calls) => `[TOOL_CALLS]${list(calls)}`,
    broken: '[TOOL_CALLS][{"name": "search"',
  },
  "Ministral 3, Devstral, Magistral": {
    convention: "bracketed-arguments",
    controls: [...TURN, "[TOOL_CALLS]", "[ARGS]", "[THINK]", "[/THINK]"],
    template: turns(`{{- '[TOOL_CALLS]' ~ ${NAME} ~ '[ARGS]' ~ (${GIVEN}) }}`, "<|turn|>assistant\\n", [
      "[THINK]",
      "[/THINK]",
    ]),
    think: (thought) => `[THINK]${thought}[/THINK]`,
    call: (calls) => calls.map(({ name, given }) => `[TOOL_CALLS]${name}[ARGS]${json(given)}`).join(""),
    broken: "[TOOL_CALLS]search[ARGS]{query}",
  },
  "Mistral Small 3.2": {
    convention: "bracketed-ids",
    controls: [...TURN, "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"],
    template: turns(`{{- '[TOOL_CALLS]' ~ ${NAME} ~ '[CALL_ID]' ~ c.id ~ '[ARGS]' ~ (${GIVEN}) }}`),
    call: (calls) =>
      calls
        .map(({ name, given }, index) => `[TOOL_CALLS]${name}[CALL_ID]00000000${index}[ARGS]${json(given)}`)
        .join(""),
    broken: "[TOOL_CALLS]search[CALL_ID]000000000[ARGS]{query}",
  },
  "DeepSeek V3.1": {
    convention: "separated-json",
    controls: [
      ...TURN,
      ...THINK,
      "<｜tool▁calls▁begin｜>",
      "<｜tool▁call▁begin｜>",
      "<｜tool▁sep｜>",
      "<｜tool▁call▁end｜>",
      "<｜tool▁calls▁end｜>",
    ],
    template: turns(
      `{{- '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>' ~ ${NAME} ~ '<｜tool▁sep｜>' ~ (${GIVEN}) ~ '<｜tool▁call▁end｜><｜tool▁calls▁end｜>' }}`,
      "<|turn|>assistant' ~ ('<think>' if thinking | default(true) else '</think>') ~ '",
    ),
    think: (thought) => `${thought}</think>`,
    call: (calls) =>
      `<｜tool▁calls▁begin｜>${calls.map(({ name, given }) => `<｜tool▁call▁begin｜>${name}<｜tool▁sep｜>${json(given)}<｜tool▁call▁end｜>`).join("")}<｜tool▁calls▁end｜>`,
    broken: "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>search{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
  },
  "DeepSeek V3, R1": {
    convention: "separated-fence",
    controls: [
      ...TURN,
      ...THINK,
      "<｜tool▁calls▁begin｜>",
      "<｜tool▁call▁begin｜>",
      "<｜tool▁sep｜>",
      "<｜tool▁call▁end｜>",
      "<｜tool▁calls▁end｜>",
    ],
    template: turns(
      `{{- '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>' ~ ${NAME} ~ '\\n\`\`\`json\\n' ~ (${GIVEN}) ~ '\\n\`\`\`<｜tool▁call▁end｜><｜tool▁calls▁end｜>' }}`,
      "<|turn|>assistant<think>\\n",
    ),
    alwaysThinks: true,
    think: (thought) => `${thought}\n</think>\n\n`,
    call: (calls) =>
      `<｜tool▁calls▁begin｜>${calls
        .map(
          ({ name, given }) =>
            `<｜tool▁call▁begin｜>function<｜tool▁sep｜>${name}\n\`\`\`json\n${json(given)}\n\`\`\`<｜tool▁call▁end｜>`,
        )
        .join("\n")}<｜tool▁calls▁end｜>`,
    broken: "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>search\n```json\n{x}\n```",
  },
  "Kimi K2": {
    convention: "numbered-json",
    controls: [
      ...TURN,
      "<|tool_calls_section_begin|>",
      "<|tool_call_begin|>",
      "<|tool_call_argument_begin|>",
      "<|tool_call_end|>",
      "<|tool_calls_section_end|>",
    ],
    template: turns(
      `{{- '<|tool_calls_section_begin|><|tool_call_begin|>' ~ c.id ~ '<|tool_call_argument_begin|>' ~ (${GIVEN}) ~ '<|tool_call_end|><|tool_calls_section_end|>' }}`,
    ),
    think: (thought) => `<think>${thought}</think>`,
    call: (calls) =>
      `<|tool_calls_section_begin|>${calls
        .map(
          ({ name, given }, index) =>
            `<|tool_call_begin|>functions.${name}:${index}<|tool_call_argument_begin|>${json(given)}<|tool_call_end|>`,
        )
        .join("")}<|tool_calls_section_end|>`,
    broken: "<|tool_calls_section_begin|><|tool_call_begin|>functions.search:0<|tool_call_end|>",
  },
  harmony: {
    convention: "harmony",
    controls: [
      ...TURN,
      "<|start|>",
      "<|channel|>",
      "<|message|>",
      "<|constrain|>",
      "<|end|>",
      "<|call|>",
      "<|return|>",
    ],
    template: turns(
      `{{- '<|start|>assistant to=functions.' ~ ${NAME} ~ '<|channel|>commentary json<|message|>' ~ (${GIVEN}) ~ '<|call|>' }}`,
      "<|start|>assistant",
      ["<|start|>assistant<|channel|>analysis<|message|>", "<|end|>"],
    ).replace(
      "{{- bos_token }}",
      "{{- bos_token }}{{- 'Reasoning: ' ~ (reasoning_effort or 'medium') }}{# <|constrain|> #}",
    ),
    think: (thought) => `<|channel|>analysis<|message|>${thought}<|end|><|start|>assistant`,
    answer: (words) => `<|channel|>final<|message|>${words}`,
    preamble: (words) => `<|channel|>commentary<|message|>${words}<|end|><|start|>assistant`,
    call: ([{ name, given }]) =>
      `<|channel|>commentary to=functions.${name} <|constrain|>json<|message|>${json(given)}<|call|>`,
    broken: "<|channel|>commentary to=functions.search <|constrain|>json<|message|>{query}",
    oneCall: true,
  },
  "Solar Open": {
    convention: "marked-parts",
    controls: [
      ...TURN,
      "<|begin|>",
      "<|end|>",
      "<|think|>",
      "<|content|>",
      "<|tool_calls|>",
      "<|tool_call:begin|>",
      "<|tool_call:name|>",
      "<|tool_call:args|>",
      "<|tool_call:end|>",
      "<|calls|>",
      "<|flush|>",
    ],
    template: turns(
      `{{- '<|tool_calls|><|tool_call:begin|>' ~ c.id ~ '<|tool_call:name|>' ~ ${NAME} ~ '<|tool_call:args|>' ~ (${GIVEN}) ~ '<|tool_call:end|><|calls|>' }}`,
      "<|begin|>assistant",
      ["<|think|>", "<|end|>"],
    ),
    think: (thought) => `<|think|>${thought}<|end|><|begin|>assistant`,
    answer: (words) => `<|content|>${words}`,
    preamble: (words) => `<|content|>${words}<|end|><|begin|>assistant`,
    call: (calls) =>
      `<|tool_calls|>${calls
        .map(
          ({ name, given }, index) =>
            `<|tool_call:begin|>call00000${index}<|tool_call:name|>${name}<|tool_call:args|>${json(given)}<|tool_call:end|>`,
        )
        .join("")}<|calls|>`,
    broken: "<|tool_calls|><|tool_call:begin|>a<|tool_call:args|>{}<|tool_call:end|>",
  },
  "Gemma 4": {
    convention: "quoted-map",
    controls: [
      ...TURN,
      "<|channel>",
      "<channel|>",
      "<|tool_call>",
      "<tool_call|>",
      "<|tool_response>",
      "<tool_response|>",
      '<|"|>',
    ],
    template: turns(
      `{{- '<|tool_call>call:' ~ ${NAME} ~ '{' }}{% for k, v in c.function.arguments | dictsort %}{{- k ~ ':' ~ ('<|"|>' ~ v ~ '<|"|>' if v is string else v | tojson) ~ ('' if loop.last else ',') }}{% endfor %}{{- '}<tool_call|>' }}`,
      "<|turn|>model\\n",
      ["<|channel>thought\\n", "<channel|>"],
    ),
    think: (thought) => `<|channel>thought\n${thought}<channel|>`,
    call: (calls) =>
      calls
        .map(
          ({ name, given }) =>
            `<|tool_call>call:${name}{${Object.entries(given)
              .map(([key, value]) => `${key}:${typeof value === "string" ? `<|"|>${value}<|"|>` : json(value)}`)
              .join(",")}}<tool_call|>`,
        )
        .join(""),
    broken: '<|tool_call>call:search{query<|"|>x<|"|>}<tool_call|>',
  },
  LFM2: {
    convention: "python-calls",
    controls: [...TURN, "<|tool_call_start|>", "<|tool_call_end|>"],
    template: turns(
      `{{- '<|tool_call_start|>[' ~ ${NAME} ~ '(' }}{% for k, v in c.function.arguments.items() %}{{- k ~ '=' ~ (v | tojson) ~ ('' if loop.last else ', ') }}{% endfor %}{{- ')]<|tool_call_end|>' }}`,
    ),
    think,
    call: (calls) => `<|tool_call_start|>[${calls.map((call) => python(call)).join(", ")}]<|tool_call_end|>`,
    broken: "<|tool_call_start|>[search(query=]<|tool_call_end|>",
  },
  "OLMo 3": {
    convention: "python-lines",
    controls: [...TURN],
    template: turns(
      `{{- '<function_calls>' ~ ${NAME} ~ '(' }}{% for k, v in c.function.arguments.items() %}{{- k ~ '=' ~ (v | tojson) ~ ('' if loop.last else ', ') }}{% endfor %}{{- ')</function_calls>' }}`,
    ),
    think,
    call: (calls) => `<function_calls>${calls.map((call) => python(call, json)).join("\n")}</function_calls>`,
    broken: "<function_calls>search query</function_calls>",
  },
  "Granite 3.3": {
    convention: "open-list",
    controls: [...TURN, "<|tool_call|>"],
    template: turns(`{{- '<|tool_call|>[{"name": "' ~ ${NAME} ~ '", "arguments": ' ~ (${GIVEN}) ~ '}]' }}`),
    think,
    call: (calls) => `<|tool_call|>${list(calls)}`,
    broken: "<|tool_call|>[search]",
  },
  "Phi-4 mini": {
    convention: "closed-list",
    controls: [...TURN, "<|tool_call|>", "<|/tool_call|>"],
    template: turns(
      `{{- '<|tool_call|>[{"name": "' ~ ${NAME} ~ '", "arguments": ' ~ (${GIVEN}) ~ '}]<|/tool_call|>' }}`,
    ),
    call: (calls) => `<|tool_call|>${list(calls)}<|/tool_call|>`,
    broken: "<|tool_call|>[search]<|/tool_call|>",
  },
  "Nemotron Nano v2": {
    convention: "capital-list",
    controls: TURN,
    template: turns(
      `{{- '<TOOLCALL>[{"name": "' ~ ${NAME} ~ '", "arguments": ' ~ (${GIVEN}) ~ '}]</TOOLCALL>' }}`,
      "<|turn|>assistant\\n<think>\\n\\n",
    ),
    alwaysThinks: true,
    think: (thought) => `${thought}\n</think>\n\n`,
    call: (calls) => `<TOOLCALL>${list(calls)}</TOOLCALL>`,
    broken: "<TOOLCALL>[{}]</TOOLCALL>",
  },
  "Apriel, Hunyuan": {
    convention: "tagged-list",
    controls: TURN,
    // Apriel's template also mentions the tags of single calls.
    template: `{# <tool_call></tool_call> #}${turns(
      `{{- '<tool_calls>[{"name": "' ~ ${NAME} ~ '", "arguments": ' ~ (${GIVEN}) ~ '}]</tool_calls>' }}`,
      "<|turn|>assistant\\nHere are my reasoning steps:\\n",
      ["", "\\n[BEGIN FINAL RESPONSE]\\n"],
    )}`,
    alwaysThinks: true,
    think: (thought) => `${thought}\n[BEGIN FINAL RESPONSE]\n`,
    call: (calls) => `<tool_calls>${list(calls)}</tool_calls>`,
    broken: "<tool_calls>[]</tool_calls>",
  },
  "MiniMax M1": {
    convention: "tagged-lines",
    controls: TURN,
    template: turns(
      `{{- '<tool_calls>\\n{"name": "' ~ ${NAME} ~ '", "arguments": ' ~ (${GIVEN}) ~ '}\\n</tool_calls>' }}`,
    ),
    think,
    call: (calls) => `<tool_calls>\n${calls.map((call) => hermes(call)).join("\n")}\n</tool_calls>`,
    broken: "<tool_calls>\n{}\n</tool_calls>",
  },
  Apertus: {
    convention: "keyed-list",
    controls: [...TURN, "<|inner_prefix|>", "<|inner_suffix|>", "<|tools_prefix|>", "<|tools_suffix|>"],
    template: turns(`{{- '<|tools_prefix|>[{"' ~ ${NAME} ~ '": ' ~ (${GIVEN}) ~ '}]<|tools_suffix|>' }}`, "<|turn|>", [
      "<|inner_prefix|>",
      "<|inner_suffix|>",
    ]),
    think: (thought) => `<|inner_prefix|>${thought}<|inner_suffix|>`,
    call: (calls) =>
      `<|tools_prefix|>[${calls.map(({ name, given }) => `{${json(name)}: ${json(given)}}`).join(", ")}]<|tools_suffix|>`,
    broken: '<|tools_prefix|>[{"search": 3}]',
  },
};
