// A client on a raw socket: it sends the bytes that a test gives it, reads only on request, and stays connected.

import { connect, type Socket } from "node:net";

/** A client that writes and reads raw bytes. */
export class PlainClient implements Disposable {
  /** The text received so far. */
  text = "";
  isEnded = false;
  readonly socket: Socket;
  /** Resolves with everything that was received, when the server has ended the connection. */
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
    // A reset connection is seen as closed.
    socket.on("error", () => {});
  }

  /** Connects; the client's side stays open when the server closes its own. */
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

  /** Reads everything from now on. */
  read(): this {
    this.socket.on("data", (chunk: Buffer) => {
      this.text += chunk.toString("latin1");
    });
    return this;
  }

  /** Reads what has arrived, a few kilobytes at most, without keeping it. */
  readSome(): string {
    const chunk = this.socket.read() as Buffer | null;
    return chunk?.toString("latin1") ?? "";
  }

  [Symbol.dispose](): void {
    this.socket.destroy();
  }
}

/** A request as bytes on the wire. */
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

/** A request whose body never arrives completely. */
export function halfPostText(path: string, contentLength = 1000): string {
  return `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${contentLength}\r\n\r\n{`;
}
