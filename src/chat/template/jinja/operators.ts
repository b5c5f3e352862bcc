// Python's operators on values. Texts keep their provenance.

import { checkList } from "./bounded-realm.js";
import { printed } from "./printing.js";
import { Text, TextBuilder } from "./text.js";
import {
  Dict,
  Float,
  isNumeric,
  isSequence,
  iterated,
  List,
  Namespace,
  numberOf,
  type Numeric,
  Tuple,
  typeName,
  Undefined,
  type TemplateValue,
} from "./values.js";

/** Python's `==`: lists, tuples and dictionaries are compared by their contents, and 1 equals 1.0 and True. */
export function isEqual(left: TemplateValue, right: TemplateValue): boolean {
  if (left === right) return true;
  if (isNumeric(left) && isNumeric(right)) return numberOf(left) === numberOf(right);
  if (left instanceof Text && right instanceof Text) return left.value === right.value;
  if (left instanceof Undefined && right instanceof Undefined) return true;
  if (isSequence(left) && isSequence(right) && typeName(left) === typeName(right)) {
    return (
      left.items.length === right.items.length && left.items.every((item, place) => isEqual(item, right.items[place]))
    );
  }
  if (left instanceof Dict && right instanceof Dict) {
    return (
      left.size === right.size &&
      left.entries().every(([key, value]) => right.has(key) && isEqual(value, right.get(key) as TemplateValue))
    );
  }
  return false;
}

/** Compares two values; negative if `left` comes first. */
export function compared(left: TemplateValue, right: TemplateValue): number {
  if (isNumeric(left) && isNumeric(right)) return numberOf(left) - numberOf(right);
  if (left instanceof Text && right instanceof Text) return comparedTexts(left.value, right.value);
  if (isSequence(left) && isSequence(right)) {
    for (const [place, item] of left.items.entries()) {
      if (place >= right.items.length) return 1;
      const order = isEqual(item, right.items[place]) ? 0 : compared(item, right.items[place]);
      if (order !== 0) return order;
    }
    return left.items.length - right.items.length;
  }
  throw new Error(`'<' not supported between instances of '${typeName(left)}' and '${typeName(right)}'`);
}

/** Compares by code points, whose order differs from that of UTF-16. */
function comparedTexts(left: string, right: string): number {
  return Buffer.compare(Buffer.from(left), Buffer.from(right));
}

/** Python's `item in container`: a substring of a string, a key of a dictionary, or an item of a list. */
export function contains(container: TemplateValue, item: TemplateValue): boolean {
  if (container instanceof Text) {
    if (!(item instanceof Text))
      throw new Error(`'in <string>' requires string as left operand, not ${typeName(item)}`);
    return container.value.includes(item.value);
  }
  if (container instanceof Dict) return container.has(item);
  if (container instanceof Namespace) return item instanceof Text && container.members.has(item.value);
  return iterated(container).some((each) => isEqual(each, item));
}

/** Applies a binary operator of Jinja, except `and` and `or`, which may leave their right side unevaluated. */
export function binary(operator: string, left: TemplateValue, right: TemplateValue): TemplateValue {
  switch (operator) {
    case "==":
      return isEqual(left, right);
    case "!=":
      return !isEqual(left, right);
    case "in":
      return contains(right, left);
    case "not in":
      return !contains(right, left);
    case "~":
      return Text.concat(printed(left), printed(right));
    default:
      break;
  }
  for (const operand of [left, right])
    if (operand instanceof Undefined)
      throw new Error(
        `${operand.name === undefined ? "a value" : `'${operand.name}'`} is undefined, and ${operator} needs one`,
      );
  switch (operator) {
    case "<":
      return compared(left, right) < 0;
    case ">":
      return compared(left, right) > 0;
    case "<=":
      return compared(left, right) <= 0;
    case ">=":
      return compared(left, right) >= 0;
    case "+":
      return sum(left, right);
    case "*":
      return product(left, right);
    default:
      if (operator === "%" && left instanceof Text)
        return formatted(left, right instanceof Tuple ? right.items : [right]);
      if (isNumeric(left) && isNumeric(right)) return arithmetic(operator, left, right);
      return unsupported(operator, left, right);
  }
}

function sum(left: TemplateValue, right: TemplateValue): TemplateValue {
  if (left instanceof Text && right instanceof Text) return Text.concat(left, right);
  if (isNumeric(left) && isNumeric(right)) return arithmetic("+", left, right);
  if (left instanceof List && right instanceof List) {
    checkList(left.items.length + right.items.length);
    return new List([...left.items, ...right.items]);
  }
  if (left instanceof Tuple && right instanceof Tuple) return new Tuple([...left.items, ...right.items]);
  // Python refuses to add a text and a number; some templates rely on that error.
  if ((left instanceof Text && isNumeric(right)) || (isNumeric(left) && right instanceof Text))
    return Text.concat(printed(left), printed(right));
  return unsupported("+", left, right);
}

function product(left: TemplateValue, right: TemplateValue): TemplateValue {
  if (isNumeric(left) && isNumeric(right)) return arithmetic("*", left, right);
  const [sequence, times] = isNumeric(left) ? [right, left] : [left, right];
  if (typeof times !== "number" && typeof times !== "boolean") return unsupported("*", left, right);
  const count = Math.max(0, Number(times));
  if (sequence instanceof Text) {
    const builder = new TextBuilder();
    if (sequence.length > 0) for (let done = 0; done < count; done++) builder.add(sequence);
    return builder.finish();
  }
  if (!(sequence instanceof List)) return unsupported("*", left, right);
  checkList(sequence.items.length * count);
  return new List(
    Array.from({ length: sequence.items.length * count }, (_, place) => sequence.items[place % sequence.items.length]),
  );
}

function arithmetic(operator: string, left: Numeric, right: Numeric): TemplateValue {
  const [a, b] = [numberOf(left), numberOf(right)];
  const isFloat = left instanceof Float || right instanceof Float;
  const made = (value: number): TemplateValue => {
    if (!Number.isFinite(value) && Number.isFinite(a) && Number.isFinite(b)) throw new Error("the result is too large");
    return isFloat || !Number.isInteger(value) ? new Float(value) : value;
  };
  if (b === 0 && (operator === "/" || operator === "//" || operator === "%")) throw new Error("division by zero");
  switch (operator) {
    case "+":
      return made(a + b);
    case "-":
      return made(a - b);
    case "*":
      return made(a * b);
    case "/":
      return new Float(a / b);
    case "//":
      return made(Math.floor(a / b));
    case "%":
      // The result has the sign of the divisor, as in Python.
      return made(((a % b) + b) % b);
    case "**":
      return made(a ** b);
    default:
      return unsupported(operator, left, right);
  }
}

/** Applies a sign to a number; other types throw Python's TypeError message. */
export function unary(operator: string, value: TemplateValue): TemplateValue {
  if (!isNumeric(value)) throw new Error(`bad operand type for unary ${operator}: '${typeName(value)}'`);
  const number = operator === "-" ? -numberOf(value) : numberOf(value);
  // Minus zero is zero for integers.
  return value instanceof Float ? new Float(number) : number + 0;
}

const FORMAT_FIELDS = /%(%|\.\d+f|[sdrf])/g;

/** Formats `"%s of %d" % (…)`, as far as templates use it. */
export function formatted(pattern: Text, values: readonly TemplateValue[]): Text {
  const builder = new TextBuilder();
  let [from, next] = [0, 0];
  for (const { 0: field, index } of pattern.value.matchAll(FORMAT_FIELDS)) {
    builder.add(pattern.slice(from, index));
    from = index + field.length;
    if (field === "%%") builder.add(Text.trusted("%"));
    else if (next >= values.length) throw new Error("not enough arguments for format string");
    else builder.add(formattedField(field, values[next++]));
  }
  if (next < values.length) throw new Error("not all arguments converted during string formatting");
  return builder.add(pattern.slice(from)).finish();
}

function formattedField(field: string, value: TemplateValue): Text {
  if (field === "%s" || field === "%r") return printed(value);
  if (!isNumeric(value)) throw new Error(`${field} format: a real number is required, not ${typeName(value)}`);
  if (field === "%d") return Text.trusted(String(Math.trunc(numberOf(value))));
  return Text.trusted(numberOf(value).toFixed(field === "%f" ? 6 : Math.min(100, Number(field.slice(2, -1)))));
}

function unsupported(operator: string, left: TemplateValue, right: TemplateValue): never {
  throw new Error(`unsupported operand type(s) for ${operator}: '${typeName(left)}' and '${typeName(right)}'`);
}
