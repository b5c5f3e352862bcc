import { describe, expect, it } from "vitest";
import { parseEvent, readEvents } from "./event-stream";

function streamOf(chunks: readonly string[]): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  return new ReadableStream({
    start: (controller) => {
      for (const chunk of chunks) controller.enqueue(encoder.encode(chunk));
      controller.close();
    },
  });
}

describe("server-sent events", () => {
  it("are read however the bytes are cut", async () => {
    const text = 'event: tensors\ndata: {"a":"é"}\n\n: waiting\n\ndata: [DONE]\n\n';
    for (let cut = 1; cut < text.length; cut++) {
      const events = [];
      for await (const event of readEvents(streamOf([text.slice(0, cut), text.slice(cut)]))) events.push(event);
      expect(events).toEqual([
        { name: "tensors", data: '{"a":"é"}' },
        { name: "message", data: "[DONE]" },
      ]);
    }
  });

  it("without data are comments", () => {
    expect(parseEvent(": waiting")).toBeUndefined();
  });
});
