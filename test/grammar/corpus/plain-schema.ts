// Whether a schema is made only of objects, arrays, unions, references, formats, bounds and patterns: the ones of which
// nearly all have to be accepted. Looked at is what can be reached from the root; annotations do not count.

type SchemaObject = Readonly<Record<string, unknown>>;

/** Keywords that make a schema one of another kind. */
const OTHER_KEYWORDS = [
  "not",
  "if",
  "then",
  "else",
  "contains",
  "minContains",
  "maxContains",
  "propertyNames",
  "uniqueItems",
  "dependencies",
  "dependentRequired",
  "dependentSchemas",
  "unevaluatedProperties",
  "unevaluatedItems",
  "$dynamicRef",
  "$recursiveRef",
  "extends",
  "disallow",
  "divisibleBy",
];
const LISTS = ["anyOf", "oneOf", "allOf", "prefixItems", "items"];
const MAPS = ["properties", "patternProperties"];
const SINGLE = ["items", "additionalItems", "additionalProperties"];

/** What keeps it from being one, keyword by keyword; empty if nothing does. */
export function otherKeywords(root: unknown): readonly string[] {
  const found = new Set<string>();
  const seen = new Set<unknown>();
  const waiting: unknown[] = [root];
  for (let schema = waiting.pop(); schema !== undefined; schema = waiting.pop()) {
    if (!isObject(schema) || seen.has(schema)) continue;
    seen.add(schema);
    // A base address of its own changes what the references inside it mean.
    if (schema !== root && (typeof schema["$id"] === "string" || typeof schema["id"] === "string"))
      found.add("$id inside");
    for (const keyword of OTHER_KEYWORDS) if (keyword in schema && schema[keyword] !== false) found.add(keyword);
    if (typeof schema["$ref"] === "string") {
      const target = resolved(root, schema["$ref"]);
      if (target === undefined) found.add("$ref elsewhere");
      waiting.push(target);
    }
    for (const keyword of LISTS) if (Array.isArray(schema[keyword])) waiting.push(...(schema[keyword] as unknown[]));
    for (const keyword of MAPS) if (isObject(schema[keyword])) waiting.push(...Object.values(schema[keyword]));
    for (const keyword of SINGLE) if (isObject(schema[keyword])) waiting.push(schema[keyword]);
  }
  return [...found].sort();
}

/** Of a reference into the same document; undefined for any other. */
export function resolved(root: unknown, reference: string): unknown {
  if (reference !== "#" && !reference.startsWith("#/")) return undefined;
  let found = root;
  for (const step of reference.split("/").slice(1)) {
    const name = decodeURIComponent(step).replaceAll("~1", "/").replaceAll("~0", "~");
    if (typeof found !== "object" || found === null || !Object.hasOwn(found, name)) return undefined;
    found = (found as SchemaObject)[name];
  }
  return found;
}

export function isObject(value: unknown): value is SchemaObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
