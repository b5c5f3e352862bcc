// Templates in the style of each supported family, written for these tests: the same marks and constructs as the
// published ones, and none of their words. Each comes with the control tokens of its vocabulary.

export interface Family {
  /** The kind of the model's vocabulary. */
  readonly vocabulary: "bpe" | "spm";
  /** Control tokens beside BOS and EOS. */
  readonly controls: readonly string[];
  /** `<s>` and `</s>` by default. */
  readonly ends?: readonly [bos: string, eos: string];
  /** Undefined: the default for such a vocabulary. */
  readonly template?: string;
  /** Whether it supports tools, calls and their results. */
  readonly tools: boolean;
}

const GENERATION = "{% if add_generation_prompt %}";

export function controlsOf({ controls, ends = ["<s>", "</s>"] }: Family): readonly string[] {
  return [...ends, ...controls];
}

export const FAMILIES: Readonly<Record<string, Family>> = {
  "ChatML, by default": { vocabulary: "bpe", controls: ["<|im_start|>", "<|im_end|>"], tools: true },
  "headers, by default": {
    vocabulary: "bpe",
    controls: ["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|python_tag|>"],
    tools: true,
  },
  "instructions, by default": { vocabulary: "spm", controls: ["[INST]", "[/INST]"], tools: false },
  "instructions with tools, by default": {
    vocabulary: "bpe",
    controls: [
      "[INST]",
      "[/INST]",
      "[TOOL_CALLS]",
      "[AVAILABLE_TOOLS]",
      "[/AVAILABLE_TOOLS]",
      "[TOOL_RESULTS]",
      "[/TOOL_RESULTS]",
    ],
    tools: true,
  },
  "a plain dialogue, by default": { vocabulary: "spm", controls: [], tools: false },
  "Qwen 3": {
    vocabulary: "bpe",
    controls: ["<|im_start|>", "<|im_end|>", "<|vision_start|>"],
    tools: true,
    template: `{%- if tools %}{{- '<|im_start|>system\\n' }}{% if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{% endif %}
      {{- '<tools>' }}{% for tool in tools %}{{- '\\n' ~ (tool | tojson) }}{% endfor %}{{- '</tools><|im_end|>\\n' }}
      {%- elif messages[0].role == 'system' %}{{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}{% endif %}
      {%- set ns = namespace(last=messages|length - 1, searching=true) %}
      {%- for message in messages[::-1] %}{% set index = messages|length - 1 - loop.index0 %}
        {%- if ns.searching and message.role == 'user' and not (message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}{% set ns.searching = false %}{% set ns.last = index %}{% endif %}
      {%- endfor %}
      {%- for message in messages %}
        {%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
        {%- elif message.role == 'assistant' %}
          {%- set content = message.content if message.content is string else '' %}
          {%- set thought = '' %}
          {%- if message.reasoning_content is string %}{% set thought = message.reasoning_content %}
          {%- elif '</think>' in content %}{% set thought = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}{% set content = content.split('</think>')[-1].lstrip('\\n') %}{% endif %}
          {{- '<|im_start|>' + message.role + '\\n' }}{% if loop.index0 > ns.last and thought %}{{- '<think>\\n' + thought.strip('\\n') + '\\n</think>\\n\\n' }}{% endif %}{{- content }}
          {%- for call in message.tool_calls or [] %}{{- '\\n<tool_call>\\n{"name": "' ~ call.function.name ~ '", "arguments": ' }}{{- call.function.arguments if call.function.arguments is string else call.function.arguments | tojson }}{{- '}\\n</tool_call>' }}{% endfor %}
          {{- '<|im_end|>\\n' }}
        {%- elif message.role == 'tool' %}
          {%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{- '<|im_start|>user' }}{% endif %}{{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
          {%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '<|im_end|>\\n' }}{% endif %}
        {%- endif %}
      {%- endfor %}
      {%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}`,
  },
  "Qwen 3 Coder": {
    vocabulary: "bpe",
    controls: ["<|im_start|>", "<|im_end|>"],
    tools: true,
    template: `{%- macro rest(object, known) %}{% for key in object %}{% if key not in known %}{{- '\\n<' ~ key ~ '>' ~ (object[key] | tojson | safe) ~ '</' ~ key ~ '>' }}{% endif %}{% endfor %}{% endmacro %}
      {%- if tools is iterable and tools | length > 0 %}{{- '<|im_start|>system\\n<tools>' }}
        {%- for tool in tools %}{% set tool = tool.function %}{{- '\\n<function>\\n<name>' ~ tool.name ~ '</name>' }}{% if tool.description is defined %}{{- '\\n<description>' ~ (tool.description | trim) ~ '</description>' }}{% endif %}
          {%- for name, fields in tool.parameters.properties | items %}{{- '\\n<parameter>\\n<name>' ~ name ~ '</name>' }}{% if fields.type is defined %}{{- '\\n<type>' ~ (fields.type | string) ~ '</type>' }}{% endif %}{{- rest(fields, ['type']) }}{{- '\\n</parameter>' }}{% endfor %}
          {{- '\\n</function>' }}{% endfor %}{{- '\\n</tools><|im_end|>\\n' }}{% endif %}
      {%- for message in messages %}
        {%- if message.role == 'tool' %}{{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' }}
        {%- else %}{{- '<|im_start|>' + message.role + '\\n' + (message.content or '') }}
          {%- for call in message.tool_calls or [] %}{{- '\\n<tool_call>\\n<function=' + call.function.name + '>\\n' }}{% for key, value in call.function.arguments | items %}{{- '<parameter=' + key + '>\\n' }}{% set value = value if value is string else value | tojson | safe %}{{- value }}{{- '\\n</parameter>\\n' }}{% endfor %}{{- '</function>\\n</tool_call>' }}{% endfor %}
          {{- '<|im_end|>\\n' }}{% endif %}
      {%- endfor %}
      {%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}`,
  },
  "Llama 3": {
    vocabulary: "bpe",
    controls: ["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|eom_id|>", "<|python_tag|>"],
    tools: true,
    template: `{{- bos_token }}{% if messages[0]['role'] == 'system' %}{% set system = messages[0]['content'] | trim %}{% set messages = messages[1:] %}{% else %}{% set system = '' %}{% endif %}
      {{- '<|start_header_id|>system<|end_header_id|>\\n\\n' + system + '<|eot_id|>' }}
      {%- if tools and messages | length != 0 %}{{- '<|start_header_id|>user<|end_header_id|>\\n\\n' }}{% for t in tools %}{{- t | tojson(indent=4) }}{{- '\\n\\n' }}{% endfor %}{{- messages[0]['content'] | trim + '<|eot_id|>' }}{% set messages = messages[1:] %}{% endif %}
      {%- for message in messages %}
        {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' }}
        {%- elif 'tool_calls' in message %}{% for call in message.tool_calls %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n{"name": "' + call.function.name + '", "parameters": ' }}{{- call.function.arguments | tojson }}{{- '}<|eot_id|>' }}{% endfor %}
        {%- else %}{{- '<|start_header_id|>ipython<|end_header_id|>\\n\\n' }}{% if message.content is mapping or (message.content is iterable and message.content is not string) %}{{- message.content | tojson }}{% else %}{{- message.content }}{% endif %}{{- '<|eot_id|>' }}{% endif %}
      {%- endfor %}
      {%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}`,
  },
  Mistral: {
    vocabulary: "bpe",
    controls: [
      "[INST]",
      "[/INST]",
      "[SYSTEM_PROMPT]",
      "[/SYSTEM_PROMPT]",
      "[TOOL_CALLS]",
      "[AVAILABLE_TOOLS]",
      "[/AVAILABLE_TOOLS]",
      "[TOOL_RESULTS]",
      "[/TOOL_RESULTS]",
    ],
    tools: true,
    template: `{{- bos_token }}{% for message in messages %}
      {%- if message.role == 'system' %}{{- '[SYSTEM_PROMPT]' + message.content + '[/SYSTEM_PROMPT]' }}
      {%- elif message.role == 'user' %}{% if tools is not none and tools is defined and message == messages | selectattr('role', 'equalto', 'user') | list | last %}{{- '[AVAILABLE_TOOLS][' }}{% for tool in tools %}{% set tool = tool.function %}{{- '{"type": "function", "function": {' }}{% for key, val in tool.items() if key != 'return' %}{% if val is string %}{{- '"' + key + '": "' + val + '"' }}{% else %}{{- '"' + key + '": ' + val | tojson }}{% endif %}{% if not loop.last %}{{- ', ' }}{% endif %}{% endfor %}{{- '}}' }}{% endfor %}{{- '][/AVAILABLE_TOOLS]' }}{% endif %}{{- '[INST]' + message.content + '[/INST]' }}
      {%- elif message.tool_calls is defined and message.tool_calls is not none %}{{- '[TOOL_CALLS][' }}{% for call in message.tool_calls %}{% set out = call.function | tojson %}{{- out[:-1] }}{% if call.id | length != 9 %}{{- raise_exception('ids have nine characters') }}{% endif %}{{- ', "id": "' + call.id + '"}' }}{% endfor %}{{- ']' + eos_token }}
      {%- elif message.role == 'assistant' %}{{- message.content + eos_token }}
      {%- elif message.role == 'tool' %}{{- '[TOOL_RESULTS]{"content": ' + message.content | string + ', "call_id": "' + message.tool_call_id + '"}[/TOOL_RESULTS]' }}{% endif %}
      {%- endfor %}`,
  },
  Gemma: {
    vocabulary: "spm",
    ends: ["<bos>", "<eos>"],
    controls: ["<start_of_turn>", "<end_of_turn>"],
    tools: false,
    template: `{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('no place for the system') }}{% endif %}{% for message in messages %}{% if message['role'] == 'assistant' %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}{% endfor %}${GENERATION}{{ '<start_of_turn>model\\n' }}{% endif %}`,
  },
  "Gemma 4": {
    vocabulary: "spm",
    // In this vocabulary </s> is an HTML tag, and text.
    ends: ["<bos>", "<eos>"],
    controls: [
      "<|turn>",
      "<turn|>",
      "<|channel>",
      "<channel|>",
      "<|tool_call>",
      "<tool_call|>",
      "<|tool_response>",
      "<tool_response|>",
      '<|"|>',
    ],
    tools: true,
    template: `{%- macro argument(value) %}{% if value is string %}{{- '<|"|>' + value + '<|"|>' }}{% elif value is boolean %}{{- 'true' if value else 'false' }}{% elif value is mapping %}{{- '{' }}{% for key, inner in value | dictsort %}{% if not loop.first %},{% endif %}{{- key + ':' + argument(inner) }}{% endfor %}{{- '}' }}{% elif value is sequence %}{{- '[' }}{% for inner in value %}{% if not loop.first %},{% endif %}{{- argument(inner) }}{% endfor %}{{- ']' }}{% else %}{{- value }}{% endif %}{% endmacro %}
      {%- macro answer(text) %}{% set ns = namespace(out='') %}{% for part in text.split('<channel|>') %}{% if '<|channel>' in part %}{% set ns.out = ns.out + part.split('<|channel>')[0] %}{% else %}{% set ns.out = ns.out + part %}{% endif %}{% endfor %}{{- ns.out | trim }}{% endmacro %}
      {{- bos_token }}{% for message in messages %}{% if message.role == 'tool' %}{{- '<|tool_response>response:' + (message.name or 'unknown') + '{value:' + argument(message.content) + '}<tool_response|>' }}
      {%- else %}{{- '<|turn>' + ('model' if message.role == 'assistant' else message.role) + '\\n' }}{% if loop.first and tools %}{% for tool in tools %}{{- tool.function.name + ':' + (tool.function.parameters.type | upper) + argument(tool.function.parameters.properties) }}{% endfor %}{% endif %}
        {%- for call in message.tool_calls or [] %}{{- '<|tool_call>call:' + call.function.name + argument(call.function.arguments) + '<tool_call|>' }}{% endfor %}{{- answer(message.content or '') if message.role == 'assistant' else message.content | trim }}{{- '<turn|>\\n' }}{% endif %}{% endfor %}${GENERATION}{{- '<|turn>model\\n' }}{% endif %}`,
  },
  Phi: {
    vocabulary: "spm",
    controls: ["<|system|>", "<|user|>", "<|assistant|>", "<|tool|>", "<|end|>"],
    tools: false,
    template: `{% for message in messages %}{{ '<|' + message['role'] + '|>' + '\\n' + message['content'] + '<|end|>\\n' }}{% endfor %}${GENERATION}{{ '<|assistant|>\\n' }}{% else %}{{ eos_token }}{% endif %}`,
  },
  DeepSeek: {
    vocabulary: "bpe",
    controls: [
      "<｜User｜>",
      "<｜Assistant｜>",
      "<｜tool▁calls▁begin｜>",
      "<｜tool▁call▁begin｜>",
      "<｜tool▁sep｜>",
      "<｜tool▁call▁end｜>",
      "<｜tool▁calls▁end｜>",
      "<｜tool▁output▁begin｜>",
      "<｜tool▁output▁end｜>",
    ],
    tools: true,
    template: `{%- set ns = namespace(system='') %}{% for message in messages %}{% if message.role == 'system' %}{% set ns.system = ns.system + message.content %}{% endif %}{% endfor %}{{ bos_token }}{{ ns.system }}{% if tools %}{{ tools | tojson }}{% endif %}
      {%- for message in messages %}
        {%- if message.role == 'user' %}{{ '<｜User｜>' + message.content + '<｜Assistant｜>' }}
        {%- elif message.role == 'assistant' and message.tool_calls %}{{ (message.content or '') + '<｜tool▁calls▁begin｜>' }}{% for call in message.tool_calls %}{{ '<｜tool▁call▁begin｜>' + call.function.name + '<｜tool▁sep｜>' + (call.function.arguments if call.function.arguments is string else call.function.arguments | tojson) + '<｜tool▁call▁end｜>' }}{% endfor %}{{ '<｜tool▁calls▁end｜>' + eos_token }}
        {%- elif message.role == 'assistant' %}{% set content = message.content %}{% if '</think>' in content %}{% set content = content.split('</think>', 1)[1] %}{% endif %}{{ content + eos_token }}
        {%- elif message.role == 'tool' %}{{ '<｜tool▁output▁begin｜>' + message.content + '<｜tool▁output▁end｜>' }}{% endif %}
      {%- endfor %}`,
  },
  GLM: {
    vocabulary: "bpe",
    controls: ["[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"],
    tools: true,
    template: `[gMASK]<sop>{% if tools %}<|system|>\n{% for tool in tools %}{{ tool | tojson(ensure_ascii=False) }}\n{% endfor %}{% endif %}
      {%- for m in messages %}{% if m.role == 'user' %}<|user|>\n{{ m.content }}{% elif m.role == 'system' %}<|system|>\n{{ m.content }}
      {%- elif m.role == 'assistant' %}<|assistant|>{% set content = m.content or '' %}{% if '</think>' in content %}{% set content = content.split('</think>')[-1].lstrip('\\n') %}{% endif %}{% if m.reasoning_content is string %}{{ '\\n<think>' + m.reasoning_content.strip() + '</think>' }}{% endif %}{% if content.strip() %}{{ '\\n' + content.strip() }}{% endif %}{% for call in m.tool_calls or [] %}{{ '\\n<tool_call>' + call.function.name }}{% for k, v in call.function.arguments.items() %}\n<arg_key>{{ k }}</arg_key>\n<arg_value>{{ v if v is string else v | tojson(ensure_ascii=False) }}</arg_value>{% endfor %}\n</tool_call>{% endfor %}
      {%- elif m.role == 'tool' %}{% if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{- '<|observation|>' }}{% endif %}{{- '\\n<tool_response>\\n' }}{{- m.content }}{{- '\\n</tool_response>' }}{% endif %}{% endfor %}${GENERATION}<|assistant|>{% endif %}`,
  },
  Harmony: {
    vocabulary: "bpe",
    controls: ["<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|return|>", "<|call|>"],
    tools: true,
    template: `{%- set last = namespace(name=none) %}{% for message in messages %}
      {%- if message.role == 'assistant' %}{% if message.tool_calls %}{% if message.content %}{{- '<|start|>assistant<|channel|>commentary<|message|>' + message.content + '<|end|>' }}{% endif %}{% set call = message.tool_calls[0].function %}{% set last.name = call.name %}{{- '<|start|>assistant to=functions.' + call.name + '<|channel|>commentary <|constrain|>json<|message|>' + (call.arguments | tojson) + '<|call|>' }}{% else %}{% if message.reasoning_content %}{{- '<|start|>assistant<|channel|>analysis<|message|>' + message.reasoning_content + '<|end|>' }}{% endif %}{{- '<|start|>assistant<|channel|>final<|message|>' + message.content + '<|end|>' }}{% endif %}
      {%- elif message.role == 'tool' %}{{- '<|start|>functions.' + (last.name or 'x') + ' to=assistant<|channel|>commentary<|message|>' + message.content | tojson + '<|end|>' }}
      {%- else %}{{- '<|start|>' + message.role + '<|message|>' + message.content }}{% if loop.first and tools %}{% for tool in tools %}{{- '\\n// ' + (tool.function.description or '') + '\\ntype ' + tool.function.name + ' = (_: ' + (tool.function.parameters | tojson) + ')' }}{% endfor %}{% endif %}{{- '<|end|>' }}{% endif %}{% endfor %}${GENERATION}<|start|>assistant{% endif %}`,
  },
  Granite: {
    vocabulary: "bpe",
    controls: ["<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>", "<|tool_call|>"],
    tools: true,
    template: `{%- if tools %}{{- '<|start_of_role|>available_tools<|end_of_role|>' }}{% for tool in tools %}{{- tool | tojson(indent=4) }}{% if not loop.last %}{{- '\\n\\n' }}{% endif %}{% endfor %}{{- '<|end_of_text|>\\n' }}{% endif %}
      {%- for message in messages %}{% if message.role == 'tool' %}{{- '<|start_of_role|>tool_response<|end_of_role|>' + message.content + '<|end_of_text|>\\n' }}{% elif message.tool_calls %}{{- '<|start_of_role|>assistant<|end_of_role|><|tool_call|>' + (message.tool_calls | map(attribute='function') | list | tojson) + '<|end_of_text|>\\n' }}{% else %}{{- '<|start_of_role|>' + message.role + '<|end_of_role|>' + message.content + '<|end_of_text|>\\n' }}{% endif %}{% endfor %}${GENERATION}{{- '<|start_of_role|>assistant<|end_of_role|>' }}{% endif %}`,
  },
  Command: {
    vocabulary: "bpe",
    controls: [
      "<|START_OF_TURN_TOKEN|>",
      "<|END_OF_TURN_TOKEN|>",
      "<|SYSTEM_TOKEN|>",
      "<|USER_TOKEN|>",
      "<|CHATBOT_TOKEN|>",
      "<|START_ACTION|>",
      "<|END_ACTION|>",
      "<|START_TOOL_RESULT|>",
      "<|END_TOOL_RESULT|>",
    ],
    tools: true,
    template: `{{ bos_token }}{% for tool in tools or [] %}{{ '<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>' ~ (tool.function | tojson) ~ '<|END_OF_TURN_TOKEN|>' }}{% endfor %}{% for message in messages %}{% set mark = {'user': '<|USER_TOKEN|>', 'system': '<|SYSTEM_TOKEN|>', 'assistant': '<|CHATBOT_TOKEN|>', 'tool': '<|SYSTEM_TOKEN|>'}[message.role] %}{{ '<|START_OF_TURN_TOKEN|>' + mark }}{% if message.tool_calls %}{{ '<|START_ACTION|>[' }}{% for tc in message.tool_calls %}{{ '{"tool_call_id": "' ~ loop.index0 ~ '", "tool_name": "' ~ tc.function.name ~ '", "parameters": ' ~ (tc.function.arguments | tojson) ~ '}' }}{% if not loop.last %},{% endif %}{% endfor %}{{ ']<|END_ACTION|>' }}{% elif message.role == 'tool' %}{{ '<|START_TOOL_RESULT|>' ~ message.content ~ '<|END_TOOL_RESULT|>' }}{% else %}{{ message.content }}{% endif %}{{ '<|END_OF_TURN_TOKEN|>' }}{% endfor %}${GENERATION}{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}{% endif %}`,
  },
  Kimi: {
    vocabulary: "bpe",
    controls: [
      "<|im_system|>",
      "<|im_user|>",
      "<|im_assistant|>",
      "<|im_middle|>",
      "<|im_end|>",
      "<|tool_calls_section_begin|>",
      "<|tool_calls_section_end|>",
      "<|tool_call_begin|>",
      "<|tool_call_argument_begin|>",
      "<|tool_call_end|>",
    ],
    tools: true,
    template: `{%- macro body(content) %}{% if content is string %}{{ content }}{% elif content is not none %}{% for part in content %}{{ part['text'] }}{% endfor %}{% endif %}{% endmacro %}
      {%- if tools %}<|im_system|>tool_declare<|im_middle|>{{ tools | tojson(separators=(',', ':')) }}<|im_end|>{% endif %}
      {%- for message in messages %}{% set name = message.get('name') or message.role %}{% if message.role == 'user' %}<|im_user|>{{ name }}<|im_middle|>{% elif message.role == 'assistant' %}<|im_assistant|>{{ name }}<|im_middle|>{% else %}<|im_system|>{{ name }}<|im_middle|>{% endif %}
        {%- if message.role == 'assistant' and message.get('tool_calls') %}{{ body(message.content) }}<|tool_calls_section_begin|>{% for call in message.tool_calls %}<|tool_call_begin|>{{ call['id'] }}<|tool_call_argument_begin|>{% if call['function']['arguments'] is string %}{{ call['function']['arguments'] }}{% else %}{{ call['function']['arguments'] | tojson }}{% endif %}<|tool_call_end|>{% endfor %}<|tool_calls_section_end|>
        {%- elif message.role == 'tool' %}## Return of {{ message.tool_call_id }}\n{{ body(message.content) }}{% else %}{{ body(message.content) }}{% endif %}<|im_end|>{% endfor %}${GENERATION}<|im_assistant|>assistant<|im_middle|>{% endif %}`,
  },
  MiniMax: {
    vocabulary: "bpe",
    controls: ["]~!b[", "]~b]", "[e~["],
    tools: true,
    template: `{%- set calls = '<minimax:tool_call>' %}{{- ']~!b[' ~ ']~b]system\\n' }}{% if messages[0].role == 'system' %}{{- messages[0].content }}{% endif %}{% for tool in tools or [] %}{{- '\\n<tool>' ~ (tool.function | tojson(ensure_ascii=False)) ~ '</tool>' }}{% endfor %}{{- '[e~[\\n' }}
      {%- for message in messages %}{% if message.role == 'assistant' %}{{- ']~b]ai\\n' }}{% if message.reasoning_content %}{{- '<think>\\n' ~ message.reasoning_content ~ '\\n</think>\\n\\n' }}{% endif %}{{- message.content or '' }}{% for call in message.tool_calls or [] %}{{- '\\n' ~ calls ~ '\\n<invoke name="' ~ call.function.name ~ '">\\n' }}{% for k, v in call.function.arguments.items() %}{{- '<parameter name="' ~ k ~ '">' ~ (v | tojson(ensure_ascii=False) if v is not string else v) ~ '</parameter>\\n' }}{% endfor %}{{- '</invoke>\\n</minimax:tool_call>' }}{% endfor %}{{- '[e~[\\n' }}
      {%- elif message.role == 'tool' %}{{- ']~b]tool\\n<response>' ~ message.content ~ '</response>[e~[\\n' }}{% elif message.role == 'user' %}{{- ']~b]user\\n' ~ message.content ~ '[e~[\\n' }}{% endif %}{% endfor %}${GENERATION}{{- ']~b]ai\\n' }}{% endif %}`,
  },
  "parts and pieces": {
    vocabulary: "bpe",
    controls: ["<|turn|>", "<|stop|>"],
    tools: true,
    // Constructs that no family should use, and that could produce a control token.
    template: `{%- for m in messages %}<|turn|>{{ m.role }}{{ m.name }}{{ m.tool_call_id }}{{ m.reasoning_content }}{{ m.content }}{{ m.content }}{{ (m.content or '') | replace('--', '') }}{{ (m.content or '')[1:] }}{{ (m.content or '')[::-1] }}{{ (m.content or '') | upper | lower }}{{ (m.content or '').split('|') | join('|') }}{{ '%s%s' | format(m.name, m.content) }}{{ '{}{}'.format(m.content, m.name) }}{{ [m.content, m.name] }}{{ (m.content or '').replace('@', m.name or '') }}{{ (m.content or '') | indent(2) }}{{ (m.content or '') | list | join }}{% for c in m.tool_calls or [] %}{{ c.id }}{{ c.function.name }}{{ c.function.arguments }}{% for k in c.function.arguments %}{{ k }}{% endfor %}{% endfor %}<|stop|>{% endfor %}{% for t in tools or [] %}{{ t }}{{ t.function.name }}{{ t.function.description }}{{ t | tojson }}{% endfor %}{{ tone }}`,
  },
};
