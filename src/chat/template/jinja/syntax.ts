// The syntax tree of templates: the lexer and parser of a library, and its nodes. The library's declarations refer to
// files in a way that Node's resolution does not follow, so they are repeated here as far as they are needed.

import * as library from "@huggingface/jinja";

interface Operator {
  readonly value: string;
}

/** A parameter of a macro, with or without a default value. */
export type Parameter =
  | Identifier
  | { readonly type: "KeywordArgumentExpression"; readonly key: Identifier; readonly value: TemplateExpression };

/** A name in a template: a variable, filter, test or keyword argument. */
export interface Identifier {
  readonly type: "Identifier";
  readonly value: string;
}

/** A call, as in `f(1, key=2, *rest)`. */
export interface CallExpression {
  readonly type: "CallExpression";
  readonly callee: TemplateExpression;
  readonly args: readonly Argument[];
}

/** What follows a `|`: the name of a filter, or a name with arguments. */
export type FilterNode = Identifier | CallExpression;

/** An argument of a call: by position, by keyword, or unpacked with `*` or `**`. */
export type Argument =
  | TemplateExpression
  | { readonly type: "KeywordArgumentExpression"; readonly key: Identifier; readonly value: TemplateExpression }
  | { readonly type: "SpreadExpression"; readonly argument: TemplateExpression }
  | { readonly type: "KeywordSpreadExpression"; readonly argument: TemplateExpression };

/** The inside of `x[start:stop:step]`; a bound that is left out is undefined. */
export interface SliceExpression {
  readonly type: "SliceExpression";
  readonly start: TemplateExpression | undefined;
  readonly stop: TemplateExpression | undefined;
  readonly step: TemplateExpression | undefined;
}

/** Access to a member: `object.property`, or `object[property]` if it is computed. */
export interface MemberExpression {
  readonly type: "MemberExpression";
  readonly object: TemplateExpression;
  readonly property: TemplateExpression | SliceExpression;
  readonly computed: boolean;
}

/** A list of expressions, which may be the target of an assignment. */
export interface TupleLiteral {
  readonly type: "TupleLiteral";
  readonly value: readonly TemplateExpression[];
}

/** A conditional expression without an alternative, or the filter of a loop. */
export interface SelectExpression {
  readonly type: "SelectExpression";
  readonly lhs: TemplateExpression;
  readonly test: TemplateExpression;
}

/** A value with a filter applied to it, as in `text | trim`. */
export interface FilterExpression {
  readonly type: "FilterExpression";
  readonly operand: TemplateExpression;
  readonly filter: FilterNode;
}

/** Every kind of expression that the parser produces. */
export type TemplateExpression =
  | Identifier
  | CallExpression
  | MemberExpression
  | TupleLiteral
  | SelectExpression
  | FilterExpression
  | { readonly type: "IntegerLiteral" | "FloatLiteral"; readonly value: number }
  | { readonly type: "StringLiteral"; readonly value: string }
  | { readonly type: "ArrayLiteral"; readonly value: readonly TemplateExpression[] }
  | { readonly type: "ObjectLiteral"; readonly value: ReadonlyMap<TemplateExpression, TemplateExpression> }
  | {
      readonly type: "BinaryExpression";
      readonly operator: Operator;
      readonly left: TemplateExpression;
      readonly right: TemplateExpression;
    }
  | { readonly type: "UnaryExpression"; readonly operator: Operator; readonly argument: TemplateExpression }
  | {
      readonly type: "TestExpression";
      readonly operand: TemplateExpression;
      readonly negate: boolean;
      readonly test: Identifier;
    }
  | {
      readonly type: "Ternary";
      readonly condition: TemplateExpression;
      readonly trueExpr: TemplateExpression;
      readonly falseExpr: TemplateExpression;
    };

/** A `{% for %}` loop; `defaultBlock` is its `{% else %}`, which is rendered if nothing was iterated. */
export interface ForStatement {
  readonly type: "For";
  readonly loopvar: TemplateExpression;
  readonly iterable: TemplateExpression;
  readonly body: readonly Statement[];
  readonly defaultBlock: readonly Statement[];
}

/** A `{% set %}`; without a value, the variable becomes the rendered body, up to `{% endset %}`. */
export interface SetStatement {
  readonly type: "Set";
  readonly assignee: TemplateExpression;
  readonly value: TemplateExpression | null;
  readonly body: readonly Statement[];
}

/** A `{% macro %}` definition. */
export interface MacroStatement {
  readonly type: "Macro";
  readonly name: Identifier;
  readonly args: readonly Parameter[];
  readonly body: readonly Statement[];
}

/** A `{% call %}` block, whose body the called macro renders with `caller()`. */
export interface CallStatement {
  readonly type: "CallStatement";
  readonly call: CallExpression;
  readonly callerArgs: readonly Parameter[] | null;
  readonly body: readonly Statement[];
}

/** A statement; an expression is printed, and the text between tags is a StringLiteral. */
export type Statement =
  | TemplateExpression
  | ForStatement
  | SetStatement
  | MacroStatement
  | CallStatement
  | {
      readonly type: "If";
      readonly test: TemplateExpression;
      readonly body: readonly Statement[];
      readonly alternate: readonly Statement[];
    }
  | { readonly type: "FilterStatement"; readonly filter: FilterNode; readonly body: readonly Statement[] }
  | { readonly type: "Break" | "Continue" | "Comment" };

/** A parsed template. */
export interface TemplateProgram {
  readonly body: readonly Statement[];
}

/** A token of the template lexer, not of a vocabulary. */
export interface SyntaxToken {
  readonly value: string;
  readonly type: string;
}

interface Library {
  parse(tokens: readonly SyntaxToken[]): TemplateProgram;
  tokenize(
    template: string,
    options: { readonly lstrip_blocks: boolean; readonly trim_blocks: boolean },
  ): readonly SyntaxToken[];
}

export const { parse, tokenize } = library as unknown as Library;
