// Families whose calls are between tags, spelled by hand from their published templates (see docs/tool-calls.md).

import {
  fields,
  GIVEN,
  hermes,
  NAME,
  pairs,
  text,
  think,
  THINK,
  TURN,
  turns,
  type Spoken,
} from "./spoken-conventions.js";

/** The families by name. */
export const TAGGED: Readonly<Record<string, Spoken>> = {
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
  "EXAONE 4": {
    convention: "joined-json",
    controls: [...TURN, "<tool_call>", "</tool_call>"],
    template: turns(`{{- '<tool_call>{"name": "' ~ ${NAME} ~ '", "arguments": ' ~ (${GIVEN}) ~ '}</tool_call>' }}`),
    think,
    call: (calls) => calls.map((call) => `<tool_call>${hermes(call)}</tool_call>`).join("\n"),
    broken: '<tool_call>{"name": "search", "arguments": {"query"}}</tool_call>',
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
    alwaysThinks: true,
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
    alwaysThinks: true,
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
    alwaysThinks: true,
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
  "DeepSeek V3.2": invocations("typed-parameters", "function_calls"),
  "DeepSeek V4": invocations("typed-calls", "tool_calls"),
};

/** A family of DeepSeek, whose versions differ in the tag around their calls. */
function invocations(convention: Spoken["convention"], tag: string): Spoken {
  const [open, close] = [`<｜DSML｜${tag}>\n`, `</｜DSML｜${tag}>`];
  return {
    convention,
    controls: [...TURN, ...THINK, "｜DSML｜"],
    template: turns(
      `{{- '<｜DSML｜${tag}>\\n<｜DSML｜invoke name="' ~ c.function.name ~ '">\\n' ~ (c.function.arguments | tojson) ~ '</｜DSML｜invoke>\\n</｜DSML｜${tag}>' }}`,
    ),
    think,
    call: (calls) =>
      `${open}${calls
        .map(
          ({ name, given }) =>
            `<｜DSML｜invoke name="${name}">\n${pairs(given, (key, value) => `<｜DSML｜parameter name="${key}" string="${typeof value === "string"}">${text(value)}</｜DSML｜parameter>\n`)}</｜DSML｜invoke>\n`,
        )
        .join("")}${close}`,
    broken: `${open}<｜DSML｜invoke name="search">\nx\n</｜DSML｜invoke>\n${close}`,
  };
}
