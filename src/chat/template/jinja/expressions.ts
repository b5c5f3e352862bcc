// Evaluates the expressions of a template. Templates come from model files and are treated as hostile, so evaluation is
// bounded; see bounded-realm.ts for bounds inside one operation.

import { checkHeap, checkList, RenderLimitError } from "./bounded-realm.js";
import { Given } from "./arguments.js";
import { type FilterContext, filterNamed } from "./filters.js";
import { attribute, item, slice } from "./members.js";
import { binary, unary } from "./operators.js";
import type { Scope } from "./scope.js";
import { NEGATED_TEST_PREFIX, TEST_PREFIX, TUPLE_OF_ONE } from "./source.js";
import type { Argument, CallExpression, TemplateExpression, FilterNode, MemberExpression } from "./syntax.js";
import { isTrueOf } from "./tests.js";
import { Text } from "./text.js";
import {
  type CallArguments,
  Callable,
  Dict,
  Float,
  isTrue,
  iterated,
  List,
  Tuple,
  typeName,
  Undefined,
  type TemplateValue,
} from "./values.js";

/** Steps between two checks of the heap size; each step allocates little. */
const STEPS_BETWEEN_CHECKS = 2048;
/** Nesting of expressions and macros; templates of models have a few dozen. Less than the stack can hold. */
const MAX_DEPTH = 1000;

/** Evaluates the expressions of one rendering, within its limits on memory and nesting. */
export class Expressions {
  #steps = 0;
  #depth = 0;

  readonly #context: FilterContext = {
    apply: (name, value, given) => filterNamed(name)(value, given, this.#context),
    judge: isTrueOf,
    attribute: item,
  };

  /** Called before anything that may take long or nest deeply; `leave` follows, unless the rendering fails. */
  enter(): void {
    if (++this.#steps % STEPS_BETWEEN_CHECKS === 0) checkHeap();
    if (++this.#depth > MAX_DEPTH) throw new RenderLimitError(`went more than ${MAX_DEPTH} levels deep`);
  }

  leave(): void {
    this.#depth--;
  }

  evaluate(node: TemplateExpression, scope: Scope): TemplateValue {
    this.enter();
    const value = this.#evaluate(node, scope);
    this.leave();
    return value;
  }

  applyFilter(filter: FilterNode, operand: TemplateValue, scope: Scope): TemplateValue {
    const isCall = filter.type === "CallExpression";
    const name = isCall ? filter.callee : filter;
    if (name.type !== "Identifier") throw new Error("expected the name of a filter");
    const given = new Given(
      name.value,
      isCall ? this.argumentsOf(filter.args, scope) : { positional: [], named: new Map() },
    );
    if (name.value.startsWith(NEGATED_TEST_PREFIX))
      return !isTrueOf(name.value.slice(NEGATED_TEST_PREFIX.length), operand, given);
    if (name.value.startsWith(TEST_PREFIX)) return isTrueOf(name.value.slice(TEST_PREFIX.length), operand, given);
    return name.value === TUPLE_OF_ONE ? new Tuple([operand]) : this.#context.apply(name.value, operand, given);
  }

  argumentsOf(args: readonly Argument[], scope: Scope): CallArguments {
    const positional: TemplateValue[] = [];
    const named = new Map<string, TemplateValue>();
    for (const argument of args) {
      if (argument.type === "KeywordArgumentExpression")
        named.set(argument.key.value, this.evaluate(argument.value, scope));
      else if (argument.type === "SpreadExpression")
        positional.push(...iterated(this.evaluate(argument.argument, scope)));
      else if (argument.type === "KeywordSpreadExpression") {
        const given = this.evaluate(argument.argument, scope);
        if (!(given instanceof Dict)) throw new Error(`argument after ** must be a mapping, not ${typeName(given)}`);
        for (const [key, value] of given.entries()) if (key instanceof Text) named.set(key.value, value);
      } else positional.push(this.evaluate(argument, scope));
    }
    return { positional, named };
  }

  #evaluate(node: TemplateExpression, scope: Scope): TemplateValue {
    switch (node.type) {
      case "Identifier":
        return scope.get(node.value);
      case "StringLiteral":
        return Text.trusted(node.value);
      case "IntegerLiteral":
        return node.value;
      case "FloatLiteral":
        return new Float(node.value);
      case "ArrayLiteral":
        return new List(this.#evaluateAll(node.value, scope));
      case "TupleLiteral":
        return new Tuple(this.#evaluateAll(node.value, scope));
      case "ObjectLiteral": {
        const dict = new Dict();
        for (const [key, value] of node.value) dict.set(this.evaluate(key, scope), this.evaluate(value, scope));
        return dict;
      }
      case "MemberExpression":
        return this.#member(node, scope);
      case "CallExpression":
        return this.call(node, scope);
      case "FilterExpression":
        return this.applyFilter(node.filter, this.evaluate(node.operand, scope), scope);
      case "TestExpression":
        return (
          isTrueOf(
            node.test.value,
            this.evaluate(node.operand, scope),
            new Given(node.test.value, { positional: [], named: new Map() }),
          ) !== node.negate
        );
      case "UnaryExpression": {
        const value = this.evaluate(node.argument, scope);
        return node.operator.value === "not" ? !isTrue(value) : unary(node.operator.value, value);
      }
      case "BinaryExpression":
        return this.#binary(node.operator.value, node.left, node.right, scope);
      case "Ternary":
        return this.evaluate(isTrue(this.evaluate(node.condition, scope)) ? node.trueExpr : node.falseExpr, scope);
      case "SelectExpression":
        return isTrue(this.evaluate(node.test, scope)) ? this.evaluate(node.lhs, scope) : new Undefined();
      default:
        node satisfies never;
        throw new Error(`unknown expression: ${(node as { readonly type: string }).type}`);
    }
  }

  #evaluateAll(nodes: readonly TemplateExpression[], scope: Scope): TemplateValue[] {
    checkList(nodes.length);
    return nodes.map((node) => this.evaluate(node, scope));
  }

  #binary(operator: string, left: TemplateExpression, right: TemplateExpression, scope: Scope): TemplateValue {
    const first = this.evaluate(left, scope);
    if (operator === "and") return isTrue(first) ? this.evaluate(right, scope) : first;
    if (operator === "or") return isTrue(first) ? first : this.evaluate(right, scope);
    return binary(operator, first, this.evaluate(right, scope));
  }

  #member({ object, property, computed }: MemberExpression, scope: Scope): TemplateValue {
    const value = this.evaluate(object, scope);
    if (property.type === "SliceExpression") {
      const bound = (node: TemplateExpression | undefined): TemplateValue =>
        node === undefined ? null : this.evaluate(node, scope);
      return slice(value, { start: bound(property.start), stop: bound(property.stop), step: bound(property.step) });
    }
    if (computed) return item(value, this.evaluate(property, scope));
    return property.type === "Identifier"
      ? attribute(value, property.value)
      : item(value, this.evaluate(property, scope));
  }

  call(
    { callee, args }: CallExpression,
    scope: Scope,
    more: ReadonlyMap<string, TemplateValue> = new Map(),
  ): TemplateValue {
    const called = this.evaluate(callee, scope);
    if (!(called instanceof Callable)) {
      throw new Error(
        called instanceof Undefined
          ? `'${called.name ?? "a value"}' is undefined, and cannot be called`
          : `'${typeName(called)}' object is not callable`,
      );
    }
    const { positional, named } = this.argumentsOf(args, scope);
    this.enter();
    const value = called.call({ positional, named: more.size === 0 ? named : new Map([...named, ...more]) });
    this.leave();
    return value;
  }
}
