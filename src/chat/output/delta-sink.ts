// Collects the deltas of a reply. White space around a call or a reasoning block belongs to neither, so it is held back
// until it is known what follows, unless no call can follow. White space that completes a stop string is not held back:
// a model that generates nothing else would never stop.

import type { ChatDelta } from "../message.js";

/** How white space and stop strings are treated. */
interface DeltaSinkOptions {
  readonly holdsSpace: boolean;
  /** Whether white space at the start of the reply is dropped. */
  readonly trimsStart: boolean;
  /** Stop strings that are matched against the text afterwards. */
  readonly stops: readonly string[];
  readonly makeId: () => string;
}

/** The kinds of text that a reply has. */
export type TextKind = "text" | "reasoning";

/** Between two parts of a reply that a reader sees as one text. */
const PARAGRAPH = "\n\n";

/** Collects deltas and holds back white space. */
export class DeltaSink {
  #deltas: ChatDelta[] = [];
  #calls = 0;
  readonly #ids = new Set<string>();
  #space = "";
  /** The kind of the last part, to which white space at the end belongs. */
  #kind: TextKind = "text";
  /** The kinds of which there has been a part. */
  readonly #kinds = new Set<TextKind>();
  /** Separates the next text from an earlier part of the same kind. */
  #separator = "";
  #dropsSpace: boolean;
  readonly #holdsSpace: boolean;
  readonly #makeId: () => string;
  /** The stop strings that white space can complete. */
  readonly #stops: readonly string[];
  readonly #longestStop: number;
  /** The end of the text, as far as a stop string may reach back. */
  #recent = "";

  constructor({ holdsSpace, trimsStart, stops, makeId }: DeltaSinkOptions) {
    this.#holdsSpace = holdsSpace;
    this.#dropsSpace = trimsStart;
    this.#makeId = makeId;
    this.#stops = holdsSpace ? stops.filter((stop) => stop !== stop.trimEnd()) : [];
    this.#longestStop = Math.max(0, ...this.#stops.map(({ length }) => length));
  }

  take(): readonly ChatDelta[] {
    const deltas = this.#deltas;
    this.#deltas = [];
    return deltas;
  }

  text(text: string): void {
    this.write("text", text);
  }

  reasoning(text: string): void {
    this.write("reasoning", text);
  }

  write(kind: TextKind, text: string): void {
    const body = this.#dropsSpace ? text.trimStart() : text;
    if (body === "") return;
    this.#dropsSpace = false;
    this.#kind = kind;
    const written = kind === "reasoning" || this.#holdsSpace ? body.trimEnd() : body;
    if (written !== "") {
      this.#push(kind, this.#separator + this.#space + written);
      this.#space = "";
      this.#separator = "";
    }
    this.#space += body.slice(written.length);
    if (kind === "text" && this.#stops.length > 0 && this.#completesStop(body)) this.end();
  }

  /** Ends the current part; white space before the next part is dropped. */
  turn(): void {
    this.#space = "";
    this.#recent = "";
    this.#separator = "";
    this.#dropsSpace = true;
  }

  /** Starts a part of a reply that consists of several; it is separated from an earlier part of the same kind. */
  startPart(kind: TextKind): void {
    this.turn();
    if (this.#kinds.has(kind)) this.#separator = PARAGRAPH;
  }

  /** Starts a call; returns its index, for its arguments. An id that another call has is replaced. */
  startCall(name: string, given?: string): number {
    this.turn();
    const index = this.#calls++;
    const id = given === undefined || this.#ids.has(given) ? this.#makeId() : given;
    this.#ids.add(id);
    this.#deltas.push({ kind: "call", index, id, name });
    return index;
  }

  callArguments(index: number, text: string): void {
    if (text !== "") this.#deltas.push({ kind: "arguments", index, text });
  }

  endCall(index: number): void {
    this.#deltas.push({ kind: "call-end", index });
  }

  /** Reports the white space that was held back. */
  end(): void {
    if (this.#space !== "") this.#push(this.#kind, this.#space);
    this.#space = "";
  }

  #completesStop(text: string): boolean {
    const recent = this.#recent + text;
    this.#recent = recent.slice(-this.#longestStop);
    return this.#stops.some((stop) => recent.includes(stop));
  }

  #push(kind: TextKind, text: string): void {
    this.#kinds.add(kind);
    this.#deltas.push({ kind, text });
  }
}
