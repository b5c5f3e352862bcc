// The lint rules that oxlint does not have: import-order, koffi-in-ffi and architecture-names. The order itself is data
// in layers.js; this file finds imports and comparisons in a source file.

import { existsSync } from "node:fs";
import { basename, dirname, join, relative, resolve, sep } from "node:path";
import { ARCHITECTURE_NAMES, isTestFile, judgeImport, partOf } from "./layers.js";

const rootByFolder = new Map();

/** The nearest folder with a package.json, so that the rules work from whichever folder the linter is started. */
function rootOf(folder) {
  const known = rootByFolder.get(folder);
  if (known !== undefined) return known;
  const parent = dirname(folder);
  const root = existsSync(join(folder, "package.json")) || parent === folder ? folder : rootOf(parent);
  rootByFolder.set(folder, root);
  return root;
}

function pathsOf(context) {
  const root = rootOf(dirname(context.filename));
  const toRepository = (path) => relative(root, path).split(sep).join("/");
  return { path: toRepository(context.filename), toRepository };
}

/** The text of a string or a template without expressions; undefined for anything computed. */
function textOf(node) {
  if (node?.type === "Literal" && typeof node.value === "string") return node.value;
  if (node?.type === "TemplateLiteral" && node.expressions.length === 0) return node.quasis[0].value.cooked;
  return undefined;
}

/** Visits every way in which a file can name another: import, export from, import(), import types, require(). */
function visitImports(visit) {
  const declaration = (node) => {
    if (node.source) visit(node, textOf(node.source), "static");
  };
  return {
    ImportDeclaration: declaration,
    ExportNamedDeclaration: declaration,
    ExportAllDeclaration: declaration,
    TSImportEqualsDeclaration: (node) => {
      if (node.moduleReference.type === "TSExternalModuleReference")
        visit(node, textOf(node.moduleReference.expression), "static");
    },
    TSImportType: (node) => visit(node, textOf(node.source), "static"),
    ImportExpression: (node) => visit(node, textOf(node.source), "dynamic"),
    CallExpression: (node) => {
      if (node.callee.type === "Identifier" && node.callee.name === "require")
        visit(node, textOf(node.arguments[0]), "static");
    },
  };
}

const importOrder = {
  meta: { type: "problem", docs: { description: "holds the import order of ARCHITECTURE.md" }, schema: [] },
  create(context) {
    const { path, toRepository } = pathsOf(context);
    if (partOf(path) === undefined || isTestFile(path)) return {};
    return visitImports((node, specifier, kind) => {
      if (specifier === undefined) {
        context.report({ node, message: "a computed path escapes the import order; write the path out" });
        return;
      }
      // The package's own name resolves to its entry point, src/index.ts.
      const own = specifier === "rocmforge" || specifier.startsWith("rocmforge/");
      if (!own && !specifier.startsWith(".")) return;
      const target = own
        ? "src/index.ts"
        : toRepository(resolve(dirname(context.filename), specifier)).replace(/\.js$/, ".ts");
      const message = judgeImport(path, target, { dynamic: kind === "dynamic" });
      if (message !== undefined) context.report({ node, message });
    });
  },
};

const koffiInFfi = {
  meta: { type: "problem", docs: { description: "keeps Koffi in files named ffi.ts" }, schema: [] },
  create(context) {
    if (basename(context.filename) === "ffi.ts") return {};
    return visitImports((node, specifier) => {
      if (specifier !== "koffi" && !specifier?.startsWith("koffi/")) return;
      context.report({ node, message: "koffi is imported only in files named ffi.ts; put the native calls there" });
    });
  },
};

const EQUALITY = new Set(["===", "!==", "==", "!="]);
const TEXT_TESTS = new Set(["startsWith", "endsWith", "includes"]);

const architectureNames = {
  meta: {
    type: "problem",
    docs: { description: "keeps decisions by architecture name in src/architectures" },
    schema: [],
  },
  create(context) {
    const { path } = pathsOf(context);
    const part = partOf(path);
    if (part === undefined || part === "architectures" || isTestFile(path)) return {};
    // In a tokenizer "llama" and "qwen2" also name vocabularies; there only a variable named after the architecture is
    // refused.
    const decidesBy = (other) => part !== "tokenizer" || /arch/i.test(context.sourceCode.getText(other));
    const judge = (node, literal, other) => {
      const name = textOf(literal);
      if (name === undefined || !ARCHITECTURE_NAMES.has(name) || !decidesBy(other)) return;
      context.report({
        node,
        message: `"${name}" is an architecture; let its descriptor in src/architectures say what differs`,
      });
    };
    return {
      BinaryExpression(node) {
        if (!EQUALITY.has(node.operator)) return;
        judge(node, node.right, node.left);
        judge(node, node.left, node.right);
      },
      SwitchStatement(node) {
        for (const branch of node.cases) judge(branch, branch.test, node.discriminant);
      },
      CallExpression(node) {
        const { callee } = node;
        if (callee.type !== "MemberExpression" || !TEXT_TESTS.has(callee.property.name) || node.arguments.length === 0)
          return;
        const [argument] = node.arguments;
        if (callee.object.type === "ArrayExpression") {
          for (const element of callee.object.elements) judge(node, element, argument);
        } else {
          judge(node, argument, callee.object);
        }
      },
    };
  },
};

export default {
  meta: { name: "rocmforge" },
  rules: { "import-order": importOrder, "koffi-in-ffi": koffiInFfi, "architecture-names": architectureNames },
};
