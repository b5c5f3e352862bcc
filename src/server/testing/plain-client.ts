// A client of bytes: it sends what a test tells it to, reads only when told to, and stays for as long as it likes.

import { connect, type Socket } from "node:net";

export class PlainClient implements Disposable {
  /** What has come so far. */
  text = "";
  isEnded = false;
  readonly socket: Socket;
  /** Resolves with everything that came, when the server has no more to say. */
  readonly ended: Promise<string>;

  private constructor(socket: Socket) {
    this.socket = socket;
    this.ended = new Promise((resolve) => {
      const end = (): void => {
        this.isEnded = true;
        resolve(this.text);
      };
      socket.on("end", end).on("close", end);
    });
    // Whoever is cut off sees that it is closed.
    socket.on("error", () => {});
  }

  /** Does not close its side when the server does. */
  static async connect(url: string): Promise<PlainClient> {
    const { port } = new URL(url);
    const socket = connect({ port: Number(port), host: "127.0.0.1", allowHalfOpen: true });
    const client = new PlainClient(socket);
    await new Promise<void>((resolve, reject) => {
      socket.once("connect", resolve);
      socket.once("error", reject);
    });
    return client;
  }

  send(bytes: string): this {
    this.socket.write(bytes);
    return this;
  }

  /** From now on, everything. */
  read(): this {
    this.socket.on("data", (chunk: Buffer) => {
      this.text += chunk.toString("latin1");
    });
    return this;
  }

  /** What is there, some kilobytes at most, and is not kept. */
  readSome(): string {
    const chunk = this.socket.read() as Buffer | null;
    return chunk?.toString("latin1") ?? "";
  }

  [Symbol.dispose](): void {
    this.socket.destroy();
  }
}

/** A request as it goes over the wire. */
export function postText(path: string, body: object, headers: readonly string[] = []): string {
  const text = JSON.stringify(body);
  const lines = [
    `POST ${path} HTTP/1.1`,
    "Host: localhost",
    "Content-Type: application/json",
    `Content-Length: ${Buffer.byteLength(text)}`,
    ...headers,
  ];
  return `${lines.join("\r\n")}\r\n\r\n${text}`;
}

/** One whose body never arrives whole. */
export function halfPostText(path: string, contentLength = 1000): string {
  return `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${contentLength}\r\n\r\n{`;
}
