// The arguments of a call, by position or by name, checked for their type.

import { Text } from "./text.js";
import { type CallArguments, isTrue, typeName, Undefined, type TemplateValue } from "./values.js";

/** An empty argument list. */
export const NO_ARGUMENTS: CallArguments = { positional: [], named: new Map() };

/**
 * The arguments of one call, read by position or name; an argument of the wrong type throws an error that names the
 * function.
 */
export class Given {
  readonly #call: string;
  readonly #given: CallArguments;

  constructor(call: string, given: CallArguments) {
    this.#call = call;
    this.#given = given;
  }

  value(place: number, name?: string): TemplateValue | undefined {
    const given = this.#given.positional[place];
    return given === undefined && name !== undefined ? this.#given.named.get(name) : given;
  }

  rest(place: number): readonly TemplateValue[] {
    return this.#given.positional.slice(place);
  }

  /** A text argument; None and undefined count as absent. */
  text(place: number, name?: string): Text | undefined {
    const value = this.#present(place, name);
    if (value === undefined || value instanceof Text) return value;
    throw new Error(`${this.#call}() expected a text, found ${typeName(value)}`);
  }

  neededText(place: number, name?: string): Text {
    const text = this.text(place, name);
    if (text === undefined) throw new Error(`${this.#call}() expected a text, found nothing`);
    return text;
  }

  integer(place: number, name?: string): number | undefined {
    const value = this.#present(place, name);
    if (value === undefined || typeof value === "number") return value;
    if (typeof value === "boolean") return Number(value);
    throw new Error(`${this.#call}() expected a whole number, found ${typeName(value)}`);
  }

  flag(place: number, name: string): boolean {
    const value = this.value(place, name);
    return value !== undefined && isTrue(value);
  }

  #present(place: number, name: string | undefined): TemplateValue | undefined {
    const value = this.value(place, name);
    return value === null || value instanceof Undefined ? undefined : value;
  }
}
