// A chat template that begins each reply with a thought, and keeps or drops the thoughts of earlier turns; and what it renders.

/** The control tokens around a message. */
export interface ThinkingMarks {
  readonly begin: string;
  readonly end: string;
}

export interface ThinkingMessage {
  readonly role: "user" | "assistant";
  readonly content: string;
  readonly reasoning_content?: string;
}

const THOUGHT = "{% if m.role == 'assistant' %}<think>\n{{ m.reasoning_content or '' }}\n</think>\n\n{% endif %}";

/** The template, for a model file. */
export function thinkingTemplate({ begin, end }: ThinkingMarks, keepsThoughts: boolean): string {
  const message = `${begin}{{ m.role }}\n${keepsThoughts ? THOUGHT : ""}{{ m.content }}${end}\n`;
  const generation = `{% if add_generation_prompt %}${begin}assistant\n<think>\n{% endif %}`;
  // The closing mark tells that the template knows thoughts.
  return `{# </think> #}{% for m in messages %}${message}{% endfor %}${generation}`;
}

/** What that template renders, up to where the model begins to think. */
export function renderThinking(
  messages: readonly ThinkingMessage[],
  { begin, end }: ThinkingMarks,
  keepsThoughts: boolean,
): string {
  const texts = messages.map(({ role, content, reasoning_content: thought = "" }) => {
    const thoughts = keepsThoughts && role === "assistant" ? `<think>\n${thought}\n</think>\n\n` : "";
    return `${begin}${role}\n${thoughts}${content}${end}\n`;
  });
  return `${texts.join("")}${begin}assistant\n<think>\n`;
}
