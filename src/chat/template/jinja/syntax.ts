// The syntax tree of templates: the lexer and parser of a library, and its nodes. The library's declarations refer to
// files in a way that Node's resolution does not follow, so they are repeated here as far as they are needed.

import * as library from "@huggingface/jinja";

interface Operator {
  readonly value: string;
}

export type Parameter =
  | Identifier
  | { readonly type: "KeywordArgumentExpression"; readonly key: Identifier; readonly value: Expression };

export interface Identifier {
  readonly type: "Identifier";
  readonly value: string;
}

export interface CallExpression {
  readonly type: "CallExpression";
  readonly callee: Expression;
  readonly args: readonly Argument[];
}

export type FilterNode = Identifier | CallExpression;

export type Argument =
  | Expression
  | { readonly type: "KeywordArgumentExpression"; readonly key: Identifier; readonly value: Expression }
  | { readonly type: "SpreadExpression"; readonly argument: Expression }
  | { readonly type: "KeywordSpreadExpression"; readonly argument: Expression };

export interface SliceExpression {
  readonly type: "SliceExpression";
  readonly start: Expression | undefined;
  readonly stop: Expression | undefined;
  readonly step: Expression | undefined;
}

export interface MemberExpression {
  readonly type: "MemberExpression";
  readonly object: Expression;
  readonly property: Expression | SliceExpression;
  readonly computed: boolean;
}

/** A list of expressions, which may be the target of an assignment. */
export interface TupleLiteral {
  readonly type: "TupleLiteral";
  readonly value: readonly Expression[];
}

/** A conditional expression without an alternative, or the filter of a loop. */
export interface SelectExpression {
  readonly type: "SelectExpression";
  readonly lhs: Expression;
  readonly test: Expression;
}

export interface FilterExpression {
  readonly type: "FilterExpression";
  readonly operand: Expression;
  readonly filter: FilterNode;
}

export type Expression =
  | Identifier
  | CallExpression
  | MemberExpression
  | TupleLiteral
  | SelectExpression
  | FilterExpression
  | { readonly type: "IntegerLiteral" | "FloatLiteral"; readonly value: number }
  | { readonly type: "StringLiteral"; readonly value: string }
  | { readonly type: "ArrayLiteral"; readonly value: readonly Expression[] }
  | { readonly type: "ObjectLiteral"; readonly value: ReadonlyMap<Expression, Expression> }
  | {
      readonly type: "BinaryExpression";
      readonly operator: Operator;
      readonly left: Expression;
      readonly right: Expression;
    }
  | { readonly type: "UnaryExpression"; readonly operator: Operator; readonly argument: Expression }
  | {
      readonly type: "TestExpression";
      readonly operand: Expression;
      readonly negate: boolean;
      readonly test: Identifier;
    }
  | {
      readonly type: "Ternary";
      readonly condition: Expression;
      readonly trueExpr: Expression;
      readonly falseExpr: Expression;
    };

export interface ForStatement {
  readonly type: "For";
  readonly loopvar: Expression;
  readonly iterable: Expression;
  readonly body: readonly Statement[];
  readonly defaultBlock: readonly Statement[];
}

export interface SetStatement {
  readonly type: "Set";
  readonly assignee: Expression;
  readonly value: Expression | null;
  readonly body: readonly Statement[];
}

export interface MacroStatement {
  readonly type: "Macro";
  readonly name: Identifier;
  readonly args: readonly Parameter[];
  readonly body: readonly Statement[];
}

export interface CallStatement {
  readonly type: "CallStatement";
  readonly call: CallExpression;
  readonly callerArgs: readonly Parameter[] | null;
  readonly body: readonly Statement[];
}

/** A statement; an expression is printed, and the text between tags is a StringLiteral. */
export type Statement =
  | Expression
  | ForStatement
  | SetStatement
  | MacroStatement
  | CallStatement
  | {
      readonly type: "If";
      readonly test: Expression;
      readonly body: readonly Statement[];
      readonly alternate: readonly Statement[];
    }
  | { readonly type: "FilterStatement"; readonly filter: FilterNode; readonly body: readonly Statement[] }
  | { readonly type: "Break" | "Continue" | "Comment" };

export interface Program {
  readonly body: readonly Statement[];
}

export interface SyntaxToken {
  readonly value: string;
  readonly type: string;
}

interface Library {
  parse(tokens: readonly SyntaxToken[]): Program;
  tokenize(
    template: string,
    options: { readonly lstrip_blocks: boolean; readonly trim_blocks: boolean },
  ): readonly SyntaxToken[];
}

export const { parse, tokenize } = library as unknown as Library;
