// Server-sent events read from a response's body. EventSource cannot send an API key, so this page reads them itself.

/** One event of a stream. */
export interface ServerEvent {
  /** "message" if the event has no name. */
  readonly name: string;
  readonly data: string;
}

/** The events of a stream in order; ends with the stream. */
export async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerEvent, void, undefined> {
  const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      // Events are separated by an empty line.
      const blocks = (rest + value).split(/\r?\n\r?\n/);
      rest = blocks.pop() ?? "";
      for (const block of blocks) {
        const event = parseEvent(block);
        if (event !== undefined) yield event;
      }
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

/** Undefined for a comment, which keeps a connection alive. */
export function parseEvent(block: string): ServerEvent | undefined {
  let name = "message";
  const data: string[] = [];
  for (const line of block.split(/\r?\n/)) {
    if (line.startsWith("event:")) name = line.slice("event:".length).trim();
    else if (line.startsWith("data:")) data.push(line.slice("data:".length).replace(/^ /, ""));
  }
  return data.length === 0 ? undefined : { name, data: data.join("\n") };
}
