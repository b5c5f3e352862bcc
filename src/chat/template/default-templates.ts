// Templates for models whose file has none, chosen by the marks in the vocabulary, which reveal the chat format that
// the model was trained on, and a plain one for models without such marks. They are written in Jinja, so that all
// models take the same path.

import type { HasToken } from "../output/convention.js";

/** A template, and what its format implies. */
interface DefaultTemplate {
  readonly template: string;
  /** Stop strings, if no token ends a reply. */
  readonly stop: readonly string[];
  /** Whether the prompt ends in the middle of a line, so that a reply begins with a space. */
  readonly trimsStart: boolean;
}

const CHATML = `
{%- if tools %}
  {{- '<|im_start|>system\\n' }}
  {%- if messages[0].role == 'system' %}{{ messages[0].content + '\\n\\n' }}{% endif %}
  {{- 'You may call these functions, each described by a JSON schema:\\n<tools>' }}
  {%- for tool in tools %}{{ '\\n' + (tool | tojson) }}{% endfor %}
  {{- '\\n</tools>\\nTo call one, write its name and arguments as JSON between tags:\\n<tool_call>\\n{"name": <name>, "arguments": <arguments>}\\n</tool_call><|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
  {%- if message.role == 'tool' %}
    {{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' }}
  {%- elif not (tools and loop.first and message.role == 'system') %}
    {{- '<|im_start|>' + message.role + '\\n' + message.content }}
    {%- for call in message.tool_calls or [] %}
      {{- '\\n<tool_call>\\n{"name": ' + (call.function.name | tojson) + ', "arguments": ' + (call.function.arguments | tojson) + '}\\n</tool_call>' }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
  {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}`;

const HEADERS = `
{{- bos_token }}
{%- if tools %}
  {{- '<|start_header_id|>system<|end_header_id|>\\n\\n' }}
  {%- if messages[0].role == 'system' %}{{ messages[0].content + '\\n\\n' }}{% endif %}
  {{- 'You may call these functions. To call one, answer with nothing but {"name": <name>, "parameters": <arguments>}.\\n' }}
  {%- for tool in tools %}{{ '\\n' + (tool | tojson) }}{% endfor %}
  {{- '<|eot_id|>' }}
{%- endif %}
{%- for message in messages %}
  {%- if not (tools and loop.first and message.role == 'system') %}
    {{- '<|start_header_id|>' + ('ipython' if message.role == 'tool' else message.role) + '<|end_header_id|>\\n\\n' + message.content }}
    {%- for call in message.tool_calls or [] %}
      {{- ('' if loop.first else '; ') + '{"name": ' + (call.function.name | tojson) + ', "parameters": ' + (call.function.arguments | tojson) + '}' }}
    {%- endfor %}
    {{- '<|eot_id|>' }}
  {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}`;

/** For formats without system messages: they are put in front of the user's. */
const INSTRUCTIONS = `
{{- bos_token }}
{%- for message in messages %}
  {%- if message.role == 'user' %}{{ '[INST] ' + message.content + ' [/INST]' }}
  {%- elif message.role == 'assistant' %}{{ ' ' + message.content + eos_token }}
  {%- endif %}
{%- endfor %}`;

const INSTRUCTIONS_WITH_TOOLS = `
{{- bos_token }}
{%- for message in messages %}
  {%- if message.role == 'user' %}
    {%- if tools and loop.last %}{{ '[AVAILABLE_TOOLS]' + (tools | tojson) + '[/AVAILABLE_TOOLS]' }}{% endif %}
    {{- '[INST] ' + message.content + '[/INST]' }}
  {%- elif message.role == 'tool' %}
    {{- '[TOOL_RESULTS]' + ({'content': message.content, 'call_id': message.tool_call_id} | tojson) + '[/TOOL_RESULTS]' }}
  {%- elif message.role == 'assistant' %}
    {{- ' ' + message.content if message.content else '' }}
    {%- if message.tool_calls %}
      {{- '[TOOL_CALLS][' }}
      {%- for call in message.tool_calls %}
        {{- ('' if loop.first else ', ') + '{"name": ' + (call.function.name | tojson) + ', "arguments": ' + (call.function.arguments | tojson) + ', "id": ' + (call.id | tojson) + '}' }}
      {%- endfor %}
      {{- ']' }}
    {%- endif %}
    {{- eos_token }}
  {%- endif %}
{%- endfor %}`;

/** A plain dialogue of roles and texts. */
const PLAIN = `
{%- for message in messages %}
  {%- if message.role == 'system' %}{{ message.content + '\\n\\n' }}
  {%- elif message.role == 'user' %}{{ 'User: ' + message.content + '\\n' }}
  {%- elif message.role == 'assistant' %}{{ 'Assistant: ' + message.content + '\\n' }}
  {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}`;

/** The default template that fits a vocabulary. */
export function defaultTemplate(hasToken: HasToken): DefaultTemplate {
  const marked = { trimsStart: false, stop: [] };
  if (hasToken("<|im_start|>")) return { ...marked, template: CHATML, stop: ["<|im_end|>"] };
  if (hasToken("<|start_header_id|>")) return { ...marked, template: HEADERS, stop: ["<|eot_id|>"] };
  if (hasToken("[INST]"))
    return { template: hasToken("[TOOL_CALLS]") ? INSTRUCTIONS_WITH_TOOLS : INSTRUCTIONS, stop: [], trimsStart: true };
  return { template: PLAIN, stop: ["\nUser:", "\nAssistant:"], trimsStart: true };
}
