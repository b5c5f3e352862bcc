// Collects what an answer turns out to be. White space around a call and around a reasoning block belongs to neither, so
// white space is held back until it is known what follows; where no call can follow, nothing is held back. Nor is white
// space that completes a stop string: a model that writes nothing else would never end.

import type { ChatDelta } from "../message.js";

export interface DeltaSinkOptions {
  readonly holdsSpace: boolean;
  /** Drops white space in front of everything. */
  readonly trimsStart: boolean;
  /** Looked for in the text by whoever takes it. */
  readonly stops: readonly string[];
  readonly makeId: () => string;
}

export class DeltaSink {
  #deltas: ChatDelta[] = [];
  #calls = 0;
  #space = "";
  #dropsSpace: boolean;
  readonly #holdsSpace: boolean;
  readonly #makeId: () => string;
  /** Those that white space can complete. */
  readonly #stops: readonly string[];
  readonly #longestStop: number;
  /** The end of the text, held back or not, as far as a stop string may reach. */
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
    this.#write("text", text, this.#holdsSpace);
  }

  reasoning(text: string): void {
    this.#write("reasoning", text, true);
  }

  /** What was written is whole; white space up to what follows is no part of that either. */
  turn(): void {
    this.#space = "";
    this.#recent = "";
    this.#dropsSpace = true;
  }

  /** The call's number, for its arguments. */
  startCall(name: string, id = this.#makeId()): number {
    this.turn();
    const index = this.#calls++;
    this.#deltas.push({ kind: "call", index, id, name });
    return index;
  }

  callArguments(index: number, text: string): void {
    if (text !== "") this.#deltas.push({ kind: "arguments", index, text });
  }

  endCall(index: number): void {
    this.#deltas.push({ kind: "call-end", index });
  }

  end(kind: "text" | "reasoning"): void {
    if (this.#space !== "") this.#push(kind, this.#space);
    this.#space = "";
  }

  #write(kind: "text" | "reasoning", text: string, holds: boolean): void {
    const body = this.#dropsSpace ? text.trimStart() : text;
    if (body === "") return;
    this.#dropsSpace = false;
    const written = holds ? body.trimEnd() : body;
    if (written !== "") {
      this.#push(kind, this.#space + written);
      this.#space = "";
    }
    this.#space += body.slice(written.length);
    if (kind === "text" && this.#stops.length > 0 && this.#completesStop(body)) this.end(kind);
  }

  #completesStop(text: string): boolean {
    const recent = this.#recent + text;
    this.#recent = recent.slice(-this.#longestStop);
    return this.#stops.some((stop) => recent.includes(stop));
  }

  #push(kind: "text" | "reasoning", text: string): void {
    this.#deltas.push({ kind, text });
  }
}
