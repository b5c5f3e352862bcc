// Families whose calls are JSON with a mark in front of it, or with none, spelled by hand from their published templates
// (see docs/tool-calls.md).

import { GIVEN, hermes, json, NAME, TURN, turns, type Spoken } from "./spoken-conventions.js";

/** The families by name. */
export const PLAIN: Readonly<Record<string, Spoken>> = {
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
  "Llama 4": {
    convention: "python-span",
    controls: [...TURN, "<|python_start|>", "<|python_end|>"],
    template: turns(
      `{{- '<|python_start|><|python_end|>{"name": "' ~ ${NAME} ~ '", "parameters": ' ~ (${GIVEN}) ~ '}' }}`,
    ),
    preamble: (words) => `${words}<|python_start|>`,
    call: (calls) => calls.map((call) => hermes(call, "parameters")).join("; "),
    broken: '{"name": "unknown", "parameters": {}}',
  },
  "GigaChat 3.1": {
    convention: "marked-json",
    controls: [...TURN, "<|function_call|>"],
    template: turns(`{{- '<|function_call|>{"name": "' ~ ${NAME} ~ '", "arguments": ' ~ (${GIVEN}) ~ '}' }}`),
    call: ([call]) => `<|function_call|>${hermes(call)}`,
    broken: '<|function_call|>{"name": 3}',
    oneCall: true,
  },
};
