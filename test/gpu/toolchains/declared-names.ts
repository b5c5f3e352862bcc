// The names that a kernel file declares at namespace scope, and a text that declares every one of them globally and as
// something else: whatever headers a compiler puts before a source, they cannot get in its way more than that.

/** Comments, preprocessor lines and everything inside braces are no declarations at namespace scope. */
function outermost(text: string): string {
  const bare = text.replace(/\/\*[\s\S]*?\*\/|\/\/[^\n]*/g, " ").replace(/^[ \t]*#(?:[^\n]*\\\n)*[^\n]*$/gm, "");
  // The namespace itself is the first pair of braces.
  const body = bare.slice(bare.indexOf("{") + 1, bare.lastIndexOf("}"));
  let depth = 0;
  let outer = "";
  for (const character of body) {
    if (character === "}") depth--;
    if (depth === 0) outer += character === "}" ? ";" : character;
    if (character === "{") depth++;
  }
  return outer;
}

const DECLARATIONS = [
  /\bstruct\s+(?:alignas\([^)]*\)\s+)?(\w+)/g,
  /\btypedef\b[^;]*?(\w+)\s*;/g,
  /\bDEVICE\s+[^;(]*?\b(\w+)\s*\(/g,
  /\b(?:constexpr|CONSTANT)\s+[^;=({]*?\b(\w+)\s*(?:\[[^\]]*\]\s*)?[={]/g,
];

/** Of a source as `KernelSource.text` has it; kernels have C's linkage, so theirs are global names and not among them. */
export function declaredNames(text: string): readonly string[] {
  const outer = outermost(text);
  return [
    ...new Set(DECLARATIONS.flatMap((pattern) => [...outer.matchAll(pattern)].map(([, name]) => name))),
  ].toSorted();
}

/** Index of the function's form in `globalDeclarations`. */
const FUNCTION_FORM = 1;
/** Functions that compilers declare themselves, before any header: another declaration can only overload them. */
const COMPILERS_FUNCTIONS: ReadonlySet<string> = new Set(["fma", "max", "min"]);

/** Each as a type, a function or a variable, by turns. */
export function globalDeclarations(names: readonly string[]): string {
  const forms = [
    (name: string) => `struct ${name} { double other; };`,
    (name: string) => `double ${name}(const char*);`,
    (name: string) => `extern double ${name};`,
  ];
  const form = (name: string, index: number): number =>
    COMPILERS_FUNCTIONS.has(name) ? FUNCTION_FORM : index % forms.length;
  return `${names.map((name, index) => forms[form(name, index)](name)).join("\n")}\n`;
}
