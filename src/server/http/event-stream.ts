// Events to one client, as server-sent events or as lines of JSON. Invariants: the status is sent with the first event, so that a request that fails
// earlier has a status of its own; the bytes that wait to be read are limited, and a client that reads none of them for
// too long is cancelled; no other client waits for it.

import type { ServerResponse } from "node:http";
import { socketOf, whenOver, whenUnread } from "./connection.js";

/** How events are delimited: server-sent events, or one line of JSON each, as in Ollama's API. */
export type StreamFraming = "sse" | "ndjson";

/** The form, limits and callbacks of a stream. */
interface EventStreamOptions {
  readonly framing: StreamFraming;
  readonly headers: Readonly<Record<string, number | string | string[] | undefined>>;
  readonly unreadBytes: number;
  readonly unreadTimeoutMs: number;
  readonly keepAliveMs: number;
  /** Called before the first byte, to take the response out of the framework's control. */
  readonly onOpen: () => void;
  /** Called if the client does not read: the request is to be cancelled. */
  readonly onStuck: () => void;
}

const CONTENT_TYPES: Readonly<Record<StreamFraming, string>> = {
  sse: "text/event-stream; charset=utf-8",
  ndjson: "application/x-ndjson",
};

/** Keep proxies from buffering the events. */
const STREAM_HEADERS = { "cache-control": "no-cache, no-transform", "x-accel-buffering": "no" } as const;

/** Events as a response; dispose it to end the response. */
export class EventStream implements Disposable {
  readonly #response: ServerResponse;
  readonly #options: EventStreamOptions;
  /** Undefined for lines of JSON, which have no comments. */
  readonly #keepAlive: NodeJS.Timeout | undefined;
  #opened = false;

  constructor(response: ServerResponse, options: EventStreamOptions) {
    this.#response = response;
    this.#options = options;
    this.#keepAlive =
      options.framing === "sse" ? setInterval(() => this.#comment(), options.keepAliveMs).unref() : undefined;
  }

  /** Whether the status has been sent. */
  get opened(): boolean {
    return this.#opened;
  }

  /** Sends an event; resolves when the next one may be sent: at once, unless too much is unread. */
  send(data: unknown, event?: string): Promise<void> | undefined {
    return this.sendText(JSON.stringify(data), event);
  }

  /** Sends an event whose data is one line of text; its name is sent only with server-sent events. */
  sendText(data: string, event?: string): Promise<void> | undefined {
    if (!this.#writable()) return undefined;
    const read = this.#write(this.#frame(data, event));
    // Node emits "drain" only after a write that returned false.
    return !read && this.#response.writableLength > this.#options.unreadBytes ? this.#readOrStuck() : undefined;
  }

  [Symbol.dispose](): void {
    clearInterval(this.#keepAlive);
    if (!this.#opened || this.#isGone()) return;
    this.#response.end();
    // The client may not read the last events either.
    if (!this.#response.writableFinished) void this.#readOrStuck();
  }

  #frame(data: string, event: string | undefined): string {
    if (this.#options.framing === "ndjson") return `${data}\n`;
    return event === undefined ? `data: ${data}\n\n` : `event: ${event}\ndata: ${data}\n\n`;
  }

  #isGone(): boolean {
    return this.#response.destroyed || socketOf(this.#response).destroyed;
  }

  #writable(): boolean {
    return !this.#isGone() && !this.#response.writableEnded;
  }

  #write(text: string): boolean {
    if (!this.#opened) {
      this.#opened = true;
      const { framing, headers } = this.#options;
      this.#options.onOpen();
      this.#response.writeHead(200, { ...headers, ...STREAM_HEADERS, "content-type": CONTENT_TYPES[framing] });
    }
    this.#keepAlive?.refresh();
    return this.#response.write(text);
  }

  /** Sends a comment, a line that begins with a colon, to keep the connection alive. */
  #comment(): void {
    if (this.#writable() && this.#response.writableLength <= this.#options.unreadBytes) this.#write(": waiting\n\n");
  }

  #readOrStuck(): Promise<void> {
    const response = this.#response;
    return new Promise((resolve) => {
      const done = (): void => {
        endWaits.forEach((end) => end());
        response.off("drain", done).off("finish", done);
        resolve();
      };
      const stuck = (): void => {
        done();
        this.#options.onStuck();
        response.destroy();
      };
      const endWaits = [whenOver(response, done), whenUnread(response, this.#options.unreadTimeoutMs, stuck)];
      response.on("drain", done).on("finish", done);
    });
  }
}
