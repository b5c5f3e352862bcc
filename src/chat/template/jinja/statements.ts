// Executes the statements of a template.

import {
  isTrue,
  Callable,
  type CallArguments,
  Dict,
  iterated,
  List,
  Namespace,
  orElse,
  Tuple,
  typeName,
  Undefined,
  type TemplateValue,
} from "./values.js";
import { Expressions } from "./expressions.js";
import { isEqual } from "./operators.js";
import { printed } from "./printing.js";
import { Scope } from "./scope.js";
import type {
  CallStatement,
  TemplateExpression,
  ForStatement,
  MacroStatement,
  Parameter,
  TemplateProgram,
  SetStatement,
  Statement,
} from "./syntax.js";
import { Text, TextBuilder } from "./text.js";

/** How a block was left early. */
type Leaving = "break" | "continue" | undefined;

/** Renders a template; the text has the provenance of each character. */
export function renderProgram({ body }: TemplateProgram, globals: Scope): Text {
  const output = new TextBuilder();
  new Statements().execute(body, new Scope(globals), output);
  return output.finish();
}

class Statements {
  readonly #expressions = new Expressions();

  execute(body: readonly Statement[], scope: Scope, output: TextBuilder): Leaving {
    for (const statement of body) {
      this.#expressions.enter();
      const leaving = this.#execute(statement, scope, output);
      this.#expressions.leave();
      if (leaving !== undefined) return leaving;
    }
    return undefined;
  }

  #execute(node: Statement, scope: Scope, output: TextBuilder): Leaving {
    switch (node.type) {
      case "If":
        return this.execute(isTrue(this.#evaluate(node.test, scope)) ? node.body : node.alternate, scope, output);
      case "For":
        this.#for(node, scope, output);
        return undefined;
      case "Set":
        this.#set(node, scope);
        return undefined;
      case "Macro":
        scope.set(node.name.value, this.#macro(node, scope));
        return undefined;
      case "CallStatement":
        output.add(printed(this.#callBlock(node, scope)));
        return undefined;
      case "FilterStatement":
        output.add(printed(this.#expressions.applyFilter(node.filter, this.#block(node.body, scope), scope)));
        return undefined;
      case "Break":
        return "break";
      case "Continue":
        return "continue";
      case "Comment":
        return undefined;
      default:
        output.add(printed(this.#evaluate(node, scope)));
        return undefined;
    }
  }

  #evaluate(node: TemplateExpression, scope: Scope): TemplateValue {
    return this.#expressions.evaluate(node, scope);
  }

  /** The text that a block writes. */
  #block(body: readonly Statement[], scope: Scope): Text {
    const output = new TextBuilder();
    this.execute(body, scope, output);
    return output.finish();
  }

  #set({ assignee, value, body }: SetStatement, scope: Scope): void {
    // {% set name | filter %}…{% endset %}
    if (assignee.type === "FilterExpression" && value === null) {
      return this.#assign(
        assignee.operand,
        this.#expressions.applyFilter(assignee.filter, this.#block(body, new Scope(scope)), scope),
        scope,
      );
    }
    this.#assign(assignee, value === null ? this.#block(body, new Scope(scope)) : this.#evaluate(value, scope), scope);
  }

  #assign(target: TemplateExpression, value: TemplateValue, scope: Scope): void {
    if (target.type === "Identifier") return scope.set(target.value, value);
    if (target.type === "TupleLiteral") {
      const values = iterated(value);
      if (values.length !== target.value.length)
        throw new Error(`expected ${target.value.length} values to unpack, found ${values.length}`);
      for (const [place, part] of target.value.entries()) this.#assign(part, values[place], scope);
      return;
    }
    if (target.type !== "MemberExpression" || target.property.type !== "Identifier")
      throw new Error(`cannot assign to ${target.type}`);
    const object = this.#evaluate(target.object, scope);
    if (!(object instanceof Namespace))
      throw new Error(`cannot assign attribute on '${typeName(object)}', only on what namespace() made`);
    object.members.set(target.property.value, value);
  }

  #for({ loopvar, iterable, body, defaultBlock }: ForStatement, scope: Scope, output: TextBuilder): void {
    const items = this.#looped(loopvar, iterable, scope);
    if (items.length === 0) return void this.execute(defaultBlock, new Scope(scope), output);
    let changed: TemplateValue | undefined;
    const extras = {
      changed: (now: TemplateValue): boolean =>
        changed !== undefined && isEqual(changed, now) ? false : ((changed = now), true),
    };
    for (let place = 0; place < items.length; place++) {
      const inner = new Scope(scope);
      inner.set("loop", loopRecord(items, place, extras.changed));
      this.#assign(loopvar, items[place], inner);
      if (this.execute(body, inner, output) === "break") return;
    }
  }

  #looped(loopvar: TemplateExpression, iterable: TemplateExpression, scope: Scope): readonly TemplateValue[] {
    if (iterable.type !== "SelectExpression") return iterated(this.#evaluate(iterable, scope));
    return iterated(this.#evaluate(iterable.lhs, scope)).filter((item) => {
      const inner = new Scope(scope);
      this.#assign(loopvar, item, inner);
      return isTrue(this.#evaluate(iterable.test, inner));
    });
  }

  #macro({ name, args, body }: MacroStatement, scope: Scope): Callable {
    return new Callable(name.value, (given) => {
      const inner = new Scope(scope);
      this.#bind(args, given, inner);
      return this.#block(body, inner);
    });
  }

  #callBlock({ call, callerArgs, body }: CallStatement, scope: Scope): TemplateValue {
    const caller = new Callable("caller", (given) => {
      const inner = new Scope(scope);
      this.#bind(callerArgs ?? [], given, inner);
      return this.#block(body, inner);
    });
    return this.#expressions.call(call, scope, new Map([["caller", caller]]));
  }

  #bind(parameters: readonly Parameter[], { positional, named }: CallArguments, scope: Scope): void {
    const rest = new Map(named);
    for (const [place, parameter] of parameters.entries()) {
      const name = parameter.type === "Identifier" ? parameter.value : parameter.key.value;
      const given = place < positional.length ? positional[place] : rest.get(name);
      rest.delete(name);
      if (given !== undefined) scope.set(name, given);
      else
        scope.set(name, parameter.type === "Identifier" ? new Undefined(name) : this.#evaluate(parameter.value, scope));
    }
    scope.set("caller", orElse(rest.get("caller"), new Undefined("caller")));
    rest.delete("caller");
    scope.set("varargs", new Tuple(positional.slice(parameters.length)));
    const kwargs = new Dict();
    for (const [name, value] of rest) kwargs.set(Text.untrusted(name), value);
    scope.set("kwargs", kwargs);
  }
}

function loopRecord(items: readonly TemplateValue[], place: number, changed: (now: TemplateValue) => boolean): Dict {
  const loop = new Dict();
  const members: Readonly<Record<string, TemplateValue>> = {
    index: place + 1,
    index0: place,
    revindex: items.length - place,
    revindex0: items.length - place - 1,
    first: place === 0,
    last: place === items.length - 1,
    length: items.length,
    previtem: orElse(items[place - 1], new Undefined("previtem")),
    nextitem: orElse(items[place + 1], new Undefined("nextitem")),
    cycle: new Callable("cycle", ({ positional }) =>
      orElse(positional[place % Math.max(1, positional.length)], new Undefined()),
    ),
    changed: new Callable("changed", ({ positional }) => changed(new List([...positional]))),
  };
  for (const [name, value] of Object.entries(members)) loop.set(Text.trusted(name), value);
  return loop;
}
