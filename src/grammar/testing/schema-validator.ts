// Checks a value against a JSON Schema, for the keywords that grammars support. Written from the standard, without any
// code under test.

type SchemaObject = Readonly<Record<string, unknown>>;

/** A description of the first violation, or undefined. */
export function violation(root: unknown, schema: unknown, value: unknown, place = "value"): string | undefined {
  if (schema === true) return undefined;
  if (schema === false) return `${place}: nothing is allowed`;
  const rules = stated(schema as SchemaObject);
  // OpenAPI 3.0's way to allow null beside a reference; lists of values are unchanged.
  if (
    value === null &&
    rules["nullable"] === true &&
    ["$ref", "allOf", "anyOf", "oneOf"].some((keyword) => rules[keyword] !== undefined)
  ) {
    const lists = [
      ...("const" in rules ? [[rules["const"]]] : []),
      ...(rules["enum"] === undefined ? [] : [list(rules["enum"])]),
    ];
    if (lists.every((values) => values.includes(null))) return undefined;
  }
  const sub = (inner: unknown, at: unknown, where: string): string | undefined => violation(root, inner, at, where);
  if (typeof rules["$ref"] === "string") {
    const found = sub(resolve(root, rules["$ref"]), value, place);
    if (found !== undefined) return found;
  }
  if (rules["type"] !== undefined) {
    const types = [rules["type"]].flat() as unknown as readonly string[];
    if (!types.some((type) => isType(value, type)) && !(rules["nullable"] === true && value === null))
      return `${place}: not of type ${types.join("|")}`;
  }
  if ("const" in rules && !equal(rules["const"], value)) return `${place}: not the constant`;
  if (Array.isArray(rules["enum"]) && !rules["enum"].some((entry) => equal(entry, value)))
    return `${place}: not in the list`;
  for (const [index, part] of list(rules["allOf"]).entries()) {
    const found = sub(part, value, `${place} allOf ${index}`);
    if (found !== undefined) return found;
  }
  for (const keyword of ["anyOf", "oneOf"]) {
    if (rules[keyword] === undefined) continue;
    if (!list(rules[keyword]).some((part) => sub(part, value, place) === undefined))
      return `${place}: none of ${keyword}`;
  }
  const left = unevaluated(root, rules, value, place, sub);
  if (left !== undefined) return left;
  if (typeof value === "number") return numberViolation(rules, value, place);
  if (typeof value === "string") return stringViolation(rules, value, place);
  if (Array.isArray(value)) return arrayViolation(rules, value, place, sub);
  if (typeof value === "object" && value !== null) return objectViolation(rules, value as SchemaObject, place, sub);
  return undefined;
}

/** Drops keywords that are null. */
function stated(schema: SchemaObject): SchemaObject {
  return Object.fromEntries(Object.entries(schema).filter(([keyword, value]) => value !== null || keyword === "const"));
}

type Sub = (schema: unknown, value: unknown, place: string) => string | undefined;

/** Properties or items that no keyword of the schema, or of a part of it that holds, mentions. */
function unevaluated(root: unknown, rules: SchemaObject, value: unknown, place: string, sub: Sub): string | undefined {
  for (const [keyword, about] of [
    ["unevaluatedProperties", isType(value, "object")],
    ["unevaluatedItems", Array.isArray(value)],
  ] as const) {
    if (rules[keyword] === undefined || !about) continue;
    const spoken = spokenOf(root, { ...rules, [keyword]: undefined }, value as object);
    for (const [key, inner] of Object.entries(value as object)) {
      const found = spoken.has(key) ? undefined : sub(rules[keyword], inner, `${place}.${key}`);
      if (found !== undefined) return found;
    }
  }
  return undefined;
}

/** The names or positions of a value that a schema mentions. */
function spokenOf(root: unknown, schema: unknown, value: object): ReadonlySet<string> {
  if (typeof schema !== "object" || schema === null || violation(root, schema, value) !== undefined) return new Set();
  const rules = schema as SchemaObject;
  const [open, others] = Array.isArray(value)
    ? [rules["unevaluatedItems"], Array.isArray(rules["items"]) ? rules["additionalItems"] : rules["items"]]
    : [rules["unevaluatedProperties"], rules["additionalProperties"]];
  if (open !== undefined || others !== undefined) return new Set(Object.keys(value));
  const fixed = Array.isArray(rules["items"]) ? rules["items"] : list(rules["prefixItems"]);
  const patterns = Object.keys((rules["patternProperties"] ?? {}) as SchemaObject).map(
    (pattern) => new RegExp(pattern, "u"),
  );
  const parts = [
    ...["allOf", "anyOf", "oneOf"].flatMap((keyword) => list(rules[keyword])),
    ...(typeof rules["$ref"] === "string" ? [resolve(root, rules["$ref"])] : []),
  ];
  return new Set(
    [
      ...(Array.isArray(value) ? fixed.keys() : Object.keys((rules["properties"] ?? {}) as SchemaObject)),
      ...Object.keys(value).filter((name) => !Array.isArray(value) && patterns.some((pattern) => pattern.test(name))),
      ...parts.flatMap((part) => [...spokenOf(root, part, value)]),
    ].map(String),
  );
}

function numberViolation(rules: SchemaObject, value: number, place: string): string | undefined {
  if (typeof rules["minimum"] === "number" && value < rules["minimum"]) return `${place}: ${value} below the minimum`;
  if (typeof rules["maximum"] === "number" && value > rules["maximum"]) return `${place}: ${value} above the maximum`;
  // Draft 4.
  if (rules["exclusiveMinimum"] === true && value === rules["minimum"]) return `${place}: ${value} is the minimum`;
  if (rules["exclusiveMaximum"] === true && value === rules["maximum"]) return `${place}: ${value} is the maximum`;
  if (typeof rules["exclusiveMinimum"] === "number" && value <= rules["exclusiveMinimum"])
    return `${place}: ${value} not above`;
  if (typeof rules["exclusiveMaximum"] === "number" && value >= rules["exclusiveMaximum"])
    return `${place}: ${value} not below`;
  return undefined;
}

function stringViolation(rules: SchemaObject, value: string, place: string): string | undefined {
  const { length } = [...value];
  if (typeof rules["minLength"] === "number" && length < rules["minLength"])
    return `${place}: ${length} characters are too few`;
  if (typeof rules["maxLength"] === "number" && length > rules["maxLength"])
    return `${place}: ${length} characters are too many`;
  if (typeof rules["pattern"] === "string" && !new RegExp(rules["pattern"], "u").test(value))
    return `${place}: ${JSON.stringify(value)} does not match`;
  return undefined;
}

function arrayViolation(rules: SchemaObject, value: readonly unknown[], place: string, sub: Sub): string | undefined {
  if (typeof rules["minItems"] === "number" && value.length < rules["minItems"]) return `${place}: too few items`;
  if (typeof rules["maxItems"] === "number" && value.length > rules["maxItems"]) return `${place}: too many items`;
  const fixed = Array.isArray(rules["items"]) ? rules["items"] : list(rules["prefixItems"]);
  const others = Array.isArray(rules["items"]) ? rules["additionalItems"] : rules["items"];
  for (const [index, item] of value.entries()) {
    const schema = index < fixed.length ? fixed[index] : (others ?? true);
    const found = sub(schema, item, `${place}[${index}]`);
    if (found !== undefined) return found;
  }
  return undefined;
}

function objectViolation(rules: SchemaObject, value: SchemaObject, place: string, sub: Sub): string | undefined {
  const names = Object.keys(value);
  for (const name of list(rules["required"]) as readonly string[])
    if (!Object.hasOwn(value, name)) return `${place}: without ${name}`;
  if (typeof rules["minProperties"] === "number" && names.length < rules["minProperties"])
    return `${place}: too few properties`;
  if (typeof rules["maxProperties"] === "number" && names.length > rules["maxProperties"])
    return `${place}: too many properties`;
  const declared = (rules["properties"] ?? {}) as SchemaObject;
  const patterns = Object.entries((rules["patternProperties"] ?? {}) as SchemaObject);
  for (const name of names) {
    const matching = patterns.filter(([pattern]) => new RegExp(pattern, "u").test(name));
    const own = Object.hasOwn(declared, name) ? [declared[name]] : [];
    const schemas = [...own, ...matching.map(([, schema]) => schema)];
    for (const schema of schemas.length > 0 ? schemas : [rules["additionalProperties"] ?? true]) {
      const found = sub(schema, value[name], `${place}.${name}`);
      if (found !== undefined) return found;
    }
  }
  return undefined;
}

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function isType(value: unknown, type: string): boolean {
  if (type === "null") return value === null;
  if (type === "array") return Array.isArray(value);
  if (type === "object") return typeof value === "object" && value !== null && !Array.isArray(value);
  return type === "integer" ? Number.isInteger(value) : typeof value === type;
}

function equal(left: unknown, right: unknown): boolean {
  return JSON.stringify(left) === JSON.stringify(right);
}

function resolve(root: unknown, reference: string): unknown {
  let found = root;
  for (const step of reference.split("/").slice(1))
    found = (found as SchemaObject)[step.replaceAll("~1", "/").replaceAll("~0", "~")];
  return found;
}
