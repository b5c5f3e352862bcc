// How the model families write thoughts, calls and answers, spelled by hand from their published templates (see
// docs/tool-calls.md), each with a short template that writes calls in the same way. Nothing here comes from src/.

import type { Family } from "./family-templates.js";

export interface SpokenCall {
  readonly name: string;
  readonly given: Readonly<Record<string, unknown>>;
}

export interface ConventionFamily extends Family {
  /** The name of its convention. */
  readonly convention: string;
  readonly template: string;
  /** What the model writes to think, behind the prompt. */
  readonly think?: (text: string) => string;
  /** What it writes to answer, behind thoughts or the prompt. */
  readonly answer?: (text: string) => string;
  /** What it writes in front of a call; the words on a line of their own by default. */
  readonly preamble?: (text: string) => string;
  /** What it writes to call tools. */
  readonly call: (calls: readonly SpokenCall[]) => string;
  /** A call that is not valid. */
  readonly broken: string;
  /** Whether a turn has one call at most. */
  readonly oneCall?: true;
}

const json = JSON.stringify;
const GIVEN = "c.function.arguments | tojson";
const NAME = "c.function.name";

/** A template whose assistant writes calls like this; `shown` is Jinja for one call. */
function turns(shown: string, generation = "<|turn|>assistant\\n", think = ["<think>", "</think>"]): string {
  return (
    `{{- bos_token }}{% if tools %}{{- '<|turn|>system\\n' ~ (tools | tojson) ~ '<|stop|>' }}{% endif %}` +
    `{% for m in messages %}{{- '<|turn|>' ~ m.role ~ '\\n' }}{% if m.reasoning_content %}{{- '${think[0]}' ~ m.reasoning_content ~ '${think[1]}' }}{% endif %}` +
    `{{- m.content or '' }}{% for c in m.tool_calls or [] %}${shown}{% endfor %}{{- '<|stop|>' }}{% endfor %}` +
    `{% if add_generation_prompt %}{{- '${generation}' }}{% endif %}`
  );
}

/** Jinja for a call with a field for each argument. */
function fields(before: string, field: readonly [string, string, string], behind: string): string {
  return (
    `{{- '${before}' }}{% for k, v in c.function.arguments.items() %}` +
    `{{- '${field[0]}' ~ k ~ '${field[1]}' ~ (v if v is string else v | tojson) ~ '${field[2]}' }}{% endfor %}{{- '${behind}' }}`
  );
}

const text = (value: unknown): string => (typeof value === "string" ? value : json(value));
const pairs = (given: SpokenCall["given"], one: (key: string, value: unknown) => string): string =>
  Object.entries(given)
    .map(([key, value]) => one(key, value))
    .join("");
const think = (thought: string): string => `<think>\n${thought}\n</think>\n\n`;
const hermes = ({ name, given }: SpokenCall, key = "arguments"): string =>
  `{"name": ${json(name)}, "${key}": ${json(given)}}`;
const list = (calls: readonly SpokenCall[]): string => `[${calls.map((call) => hermes(call)).join(", ")}]`;
const python = ({ name, given }: SpokenCall): string =>
  `${name}(${Object.entries(given)
    .map(([key, value]) => `${key}=${typeof value === "boolean" ? (value ? "True" : "False") : json(value)}`)
    .join(", ")})`;
const TURN = ["<|turn|>", "<|stop|>"];
const THINK = ["<think>", "</think>"];

type Spoken = Omit<ConventionFamily, "vocabulary" | "tools">;

const SPOKEN: Readonly<Record<string, Spoken>> = {
  "Hermes, Qwen 3, Granite 4, SmolLM3": {
    convention: "tagged-json",
    controls: [...TURN, ...THINK, "<tool_call>", "</tool_call>"],
    template: turns(
      `{{- '<tool_call>\\n{"name": "' ~ ${NAME} ~ '", "arguments": ' ~ (${GIVEN}) ~ '}\\n</tool_call>' }}`,
    ),
    think,
    call: (calls) => calls.map((call) => `<tool_call>\n${hermes(call)}\n</tool_call>`).join("\n"),
    broken: '<tool_call>\n{"name": "search", "arguments": {"query": }}\n</tool_call>',
  },
  "GLM 4.5": {
    convention: "tagged-keys",
    controls: [
      ...TURN,
      ...THINK,
      "<tool_call>",
      "</tool_call>",
      "<arg_key>",
      "</arg_key>",
      "<arg_value>",
      "</arg_value>",
    ],
    template: turns(
      fields(
        `<tool_call>' ~ ${NAME} ~ '\\n`,
        ["<arg_key>", "</arg_key>\\n<arg_value>", "</arg_value>\\n"],
        "</tool_call>",
      ),
    ),
    think,
    call: (calls) =>
      calls
        .map(
          ({ name, given }) =>
            `<tool_call>${name}\n${pairs(given, (key, value) => `<arg_key>${key}</arg_key>\n<arg_value>${text(value)}</arg_value>\n`)}</tool_call>`,
        )
        .join("\n"),
    broken: "<tool_call>search\n<arg_key>query</arg_key>\n</tool_call>",
  },
  "GLM 4.7": {
    convention: "joined-keys",
    controls: [
      ...TURN,
      ...THINK,
      "<tool_call>",
      "</tool_call>",
      "<arg_key>",
      "</arg_key>",
      "<arg_value>",
      "</arg_value>",
    ],
    template: turns(
      fields(`<tool_call>' ~ ${NAME} ~ '`, ["<arg_key>", "</arg_key><arg_value>", "</arg_value>"], "</tool_call>"),
      "<|turn|>assistant\\n<think>",
    ),
    think: (thought) => `${thought}</think>`,
    call: (calls) =>
      calls
        .map(
          ({ name, given }) =>
            `<tool_call>${name}${pairs(given, (key, value) => `<arg_key>${key}</arg_key><arg_value>${text(value)}</arg_value>`)}</tool_call>`,
        )
        .join(""),
    broken: "<tool_call>search<arg_value>x</arg_value></tool_call>",
  },
  "Qwen3-Coder, Qwen3.5, Nemotron 3": {
    convention: "tagged-parameters",
    controls: [...TURN, ...THINK, "<tool_call>", "</tool_call>"],
    template: turns(
      fields(
        `<tool_call>\\n<function=' ~ ${NAME} ~ '>\\n`,
        ["<parameter=", ">\\n", "\\n</parameter>\\n"],
        "</function>\\n</tool_call>",
      ),
      "<|turn|>assistant\\n<think>\\n",
    ),
    think: (thought) => `${thought}\n</think>\n\n`,
    call: (calls) =>
      calls
        .map(
          ({ name, given }) =>
            `<tool_call>\n<function=${name}>\n${pairs(given, (key, value) => `<parameter=${key}>\n${text(value)}\n</parameter>\n`)}</function>\n</tool_call>`,
        )
        .join("\n"),
    broken: "<tool_call>\n<function=search>\nquery: x\n</function>\n</tool_call>",
  },
  "Seed-OSS": {
    convention: "seed-parameters",
    controls: [...TURN, "<seed:think>", "</seed:think>", "<seed:tool_call>", "</seed:tool_call>"],
    template: turns(
      fields(
        `<seed:tool_call>\\n<function=' ~ ${NAME} ~ '>\\n`,
        ["<parameter=", ">", "</parameter>\\n"],
        "</function>\\n</seed:tool_call>",
      ),
      "<|turn|>assistant\\n",
      ["<seed:think>", "</seed:think>"],
    ),
    think: (thought) => `<seed:think>\n${thought}\n</seed:think>\n`,
    call: (calls) =>
      calls
        .map(
          ({ name, given }) =>
            `<seed:tool_call>\n<function=${name}>\n${pairs(given, (key, value) => `<parameter=${key}>${text(value)}</parameter>\n`)}</function>\n</seed:tool_call>`,
        )
        .join("\n"),
    broken: "<seed:tool_call>\n<function=search>\n<parameter=query></function>\n</seed:tool_call>",
  },
  "MiniMax M2": {
    convention: "named-parameters",
    controls: [...TURN, "<minimax:tool_call>", "</minimax:tool_call>"],
    template: turns(
      fields(
        `<minimax:tool_call>\\n<invoke name="' ~ ${NAME} ~ '">\\n`,
        ['<parameter name="', '">', "</parameter>\\n"],
        "</invoke>\\n</minimax:tool_call>",
      ),
      "<|turn|>assistant\\n<think>\\n",
    ),
    think: (thought) => `${thought}\n</think>\n\n`,
    call: (calls) =>
      `<minimax:tool_call>\n${calls
        .map(
          ({ name, given }) =>
            `<invoke name="${name}">\n${pairs(given, (key, value) => `<parameter name="${key}">${text(value)}</parameter>\n`)}</invoke>\n`,
        )
        .join("")}</minimax:tool_call>`,
    broken: '<minimax:tool_call>\n<invoke name="search">\n<parameter>x</parameter>\n</invoke>\n</minimax:tool_call>',
  },
  "DeepSeek V3.2": {
    convention: "typed-parameters",
    controls: [...TURN, ...THINK, "｜DSML｜"],
    template: turns(
      "{{- '<｜DSML｜function_calls>\\n<｜DSML｜invoke name=\"' ~ c.function.name ~ '\">\\n' ~ (c.function.arguments | tojson) ~ '</｜DSML｜invoke>\\n</｜DSML｜function_calls>' }}",
    ),
    think,
    call: (calls) =>
      `<｜DSML｜function_calls>\n${calls
        .map(
          ({ name, given }) =>
            `<｜DSML｜invoke name="${name}">\n${pairs(given, (key, value) => `<｜DSML｜parameter name="${key}" string="${typeof value === "string"}">${text(value)}</｜DSML｜parameter>\n`)}</｜DSML｜invoke>\n`,
        )
        .join("")}</｜DSML｜function_calls>`,
    broken: '<｜DSML｜function_calls>\n<｜DSML｜invoke name="search">\nx\n</｜DSML｜invoke>\n</｜DSML｜function_calls>',
  },
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
    call: (calls) => `<|tool_call_start|>[${calls.map(python).join(", ")}]<|tool_call_end|>`,
    broken: "<|tool_call_start|>[search(query=]<|tool_call_end|>",
  },
  "OLMo 3": {
    convention: "python-lines",
    controls: [...TURN],
    template: turns(
      `{{- '<function_calls>' ~ ${NAME} ~ '(' }}{% for k, v in c.function.arguments.items() %}{{- k ~ '=' ~ (v | tojson) ~ ('' if loop.last else ', ') }}{% endfor %}{{- ')</function_calls>' }}`,
    ),
    think,
    call: (calls) => `<function_calls>${calls.map(python).join("\n")}</function_calls>`,
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
    think: (thought) => `${thought}\n</think>\n\n`,
    call: (calls) => `<TOOLCALL>${list(calls)}</TOOLCALL>`,
    broken: "<TOOLCALL>[{}]</TOOLCALL>",
  },
  "Apriel, Hunyuan": {
    convention: "tagged-list",
    controls: TURN,
    template: turns(`{{- '<tool_calls>[{"name": "' ~ ${NAME} ~ '", "arguments": ' ~ (${GIVEN}) ~ '}]</tool_calls>' }}`),
    call: (calls) => `<tool_calls>${list(calls)}</tool_calls>`,
    broken: "<tool_calls>[]</tool_calls>",
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
  "Command R7B, A": {
    convention: "action-list",
    controls: [
      ...TURN,
      "<|START_THINKING|>",
      "<|END_THINKING|>",
      "<|START_ACTION|>",
      "<|END_ACTION|>",
      "<|START_RESPONSE|>",
      "<|END_RESPONSE|>",
    ],
    template: turns(
      `{{- '<|START_ACTION|>[\\n    {"tool_call_id": "0", "tool_name": "' ~ ${NAME} ~ '", "parameters": ' ~ (${GIVEN}) ~ '}\\n]<|END_ACTION|>' }}`,
      "<|turn|>",
      ["<|START_THINKING|>", "<|END_THINKING|>"],
    ),
    think: (thought) => `<|START_THINKING|>${thought}<|END_THINKING|>`,
    answer: (words) => `<|START_RESPONSE|>${words}<|END_RESPONSE|>`,
    call: (calls) =>
      `<|START_ACTION|>[\n    ${calls
        .map(
          ({ name, given }, index) =>
            `{"tool_call_id": "${index}", "tool_name": ${json(name)}, "parameters": ${json(given)}}`,
        )
        .join(",\n    ")}\n]<|END_ACTION|>`,
    broken: '<|START_ACTION|>[{"tool_name": 3}]<|END_ACTION|>',
  },
  "Command R": {
    convention: "action-fence",
    controls: TURN,
    template: turns(
      `{{- 'Action: \`\`\`json\\n[\\n    {\\n        "tool_name": "' ~ ${NAME} ~ '",\\n        "parameters": ' ~ (${GIVEN}) ~ '\\n    }\\n]\`\`\`' }}`,
    ),
    call: (calls) =>
      `Action: \`\`\`json\n[\n${calls
        .map(
          ({ name, given }) =>
            `    {\n        "tool_name": ${json(name)},\n        "parameters": ${json(given)}\n    }`,
        )
        .join(",\n")}\n]\`\`\``,
    broken: 'Action: ```json\n[{"tool_name": "directly_answer", "parameters": {}}]```',
  },
  "functionary 3.2": {
    convention: "recipients",
    controls: TURN,
    template: turns(`{{- '>>>' ~ ${NAME} ~ '\\n' ~ (${GIVEN}) }}`, "<|turn|>assistant\\n>>>").replace(
      "{{- m.content or '' }}",
      "{{- ('>>>all\\n' ~ m.content) if m.role == 'assistant' and m.content else (m.content or '') }}",
    ),
    answer: (words) => `all\n${words}`,
    preamble: (words) => `all\n${words}\n>>>`,
    call: (calls) => calls.map(({ name, given }) => `${name}\n${json(given)}`).join(">>>"),
    broken: "search\n{query}",
  },
  "functionary 3.1": {
    convention: "function-json",
    controls: [...TURN, "<|python_tag|>"],
    template: turns(`{{- '<function=' ~ ${NAME} ~ '>' ~ (${GIVEN}) ~ '</function>' }}`),
    call: (calls) => calls.map(({ name, given }) => `<function=${name}>${json(given)}</function>`).join(""),
    broken: "<function=search>{query}</function>",
  },
  "Llama 3": {
    convention: "python-tag",
    controls: [...TURN, "<|python_tag|>"],
    template: turns(`{{- '<|python_tag|>{"name": "' ~ ${NAME} ~ '", "parameters": ' ~ (${GIVEN}) ~ '}' }}`),
    preamble: (words) => `${words}<|python_tag|>`,
    call: (calls) => calls.map((call) => hermes(call, "parameters")).join("; "),
    broken: '{"name": "unknown", "parameters": {}}',
  },
};

/** The families, each as its marks are control tokens of the vocabulary. */
export const CONVENTION_FAMILIES: Readonly<Record<string, ConventionFamily>> = Object.fromEntries(
  Object.entries(SPOKEN).map(([name, spoken]) => [name, { vocabulary: "bpe" as const, tools: true, ...spoken }]),
);
