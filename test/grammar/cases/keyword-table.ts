// Schemas for each keyword of draft 2020-12, alone and beside those it could be mixed up with, and values of every kind to
// try them on.

const object = (properties: Readonly<Record<string, unknown>>, rest: object = {}): object => ({ type: "object", properties, ...rest });

/** Lint takes an object with such a name for a promise. */
const THEN = "then";
const so = (schema: object): object => Object.fromEntries(new Map([[THEN, schema]]));

export const KEYWORD_SCHEMAS: readonly object[] = [
  { type: "integer" }, { type: "number" }, { type: "string" }, { type: "boolean" }, { type: "null" }, { type: "array" }, { type: "object" }, { type: ["integer", "string"] },
  { enum: [1, "a", null, [1], { a: 1 }] }, { enum: [[false], { a: false }, 0, ""] }, { const: 0 }, { const: false }, { const: { a: [1, { b: null }] } }, { const: "" }, { type: "string", enum: ["a", 1] },
  { type: "number", minimum: 1.1 }, { type: "number", maximum: 3 }, { type: "number", exclusiveMinimum: 0 }, { type: "number", exclusiveMaximum: 1 }, { type: "integer", minimum: -2, maximum: 2 },
  { type: "number", multipleOf: 2 }, { type: "number", multipleOf: 0.5 }, { type: "integer", multipleOf: 3 }, { type: "number", minimum: 0, maximum: 100, multipleOf: 1.5 },
  { type: "string", minLength: 2 }, { type: "string", maxLength: 1 }, { type: "string", minLength: 1, maxLength: 2 }, { type: "string", pattern: "^a*$" }, { type: "string", pattern: "a+" }, { type: "string", pattern: "^\\S(|.*\\S)$" },
  { type: "string", pattern: "^[a-z]+$", maxLength: 3 }, { type: "string", pattern: "b", minLength: 3 },
  { type: "array", items: { type: "integer" } }, { type: "array", items: false }, { type: "array", items: true, maxItems: 2 }, { type: "array", minItems: 1 }, { type: "array", prefixItems: [{ type: "integer" }, { type: "string" }] },
  { type: "array", prefixItems: [{ type: "integer" }], items: { type: "string" } }, { type: "array", prefixItems: [{}, {}, {}], items: false }, { type: "array", prefixItems: [{ const: 1 }], minItems: 1, maxItems: 2, items: {} },
  { type: "array", items: { enum: [1, 2, 3] }, uniqueItems: true }, { type: "array", items: { enum: [0, false, "", null] }, uniqueItems: true, minItems: 2 }, { type: "array", items: { enum: ["a", "b"] }, uniqueItems: false, maxItems: 3 },
  { type: "array", prefixItems: [{ enum: [1, 2] }, { enum: [1, 2] }], items: false, uniqueItems: true }, { type: "array", items: { type: "array", items: { type: "integer" } } },
  object({ foo: { type: "integer" }, bar: { type: "string" } }), object({ foo: {}, bar: {} }, { required: ["foo"] }), object({ foo: {} }, { additionalProperties: false }), object({ foo: {} }, { additionalProperties: { type: "boolean" } }),
  { type: "object", additionalProperties: { type: "boolean" } }, object({ foo: { type: "array", maxItems: 2 } }, { patternProperties: { "f.o": { minItems: 1, type: "array" } }, additionalProperties: { type: "integer" } }),
  { type: "object", patternProperties: { "f.*o": { type: "integer" } } }, { type: "object", patternProperties: { "^a": { type: "integer" }, "b$": { maximum: 3, type: "integer" } } }, { type: "object", patternProperties: { "^v": {} }, additionalProperties: false },
  { type: "object", required: ["foo", "bar"] }, { type: "object", minProperties: 1 }, { type: "object", maxProperties: 1 }, { type: "object", minProperties: 1, maxProperties: 2 }, object({ foo: {}, bar: {} }, { maxProperties: 1 }), object({ foo: {}, bar: {}, baz: {} }, { minProperties: 2 }),
  object({ foo: {}, bar: {} }, { dependentRequired: { bar: ["foo"] } }), object({ foo: {}, bar: {}, baz: {} }, { dependentRequired: { baz: ["foo", "bar"] } }), object({ foo: {}, bar: {} }, { dependencies: { bar: ["foo"] } }),
  object({ foo: {}, bar: {} }, { dependentSchemas: { bar: { properties: { foo: { type: "integer" } } } } }), object({ foo: {}, bar: {} }, { dependencies: { bar: { required: ["foo"], properties: { foo: { type: "string" } } } } }),
  { type: "object", propertyNames: { maxLength: 3 } }, { type: "object", propertyNames: { pattern: "^[a-f]" }, additionalProperties: { type: "integer" } }, { type: "object", propertyNames: { enum: ["foo", "bar"] } },
  { anyOf: [{ type: "integer" }, { type: "number", minimum: 2 }] }, { type: "string", anyOf: [{ maxLength: 2 }, { minLength: 4 }] }, { anyOf: [{ type: "object", required: ["bar"] }, { type: "object", required: ["foo"] }] }, { anyOf: [{ const: "a" }, {}] },
  { oneOf: [{ type: "integer" }, { type: "number", minimum: 2 }] }, { type: "string", oneOf: [{ minLength: 2 }, { maxLength: 4 }] }, { type: "string", oneOf: [{ maxLength: 0 }, { minLength: 1 }] }, { oneOf: [{ type: "string" }, { type: "string", maxLength: 1 }, { type: "null" }] },
  { oneOf: [object({ bar: { type: "integer" } }, { required: ["bar"], additionalProperties: false }), object({ foo: { type: "string" } }, { required: ["foo"], additionalProperties: false })] }, { oneOf: [{ enum: ["a", "ab"] }, { enum: ["ab", "b"] }] }, { oneOf: [{ type: "boolean" }, { const: true }] },
  { type: "object", properties: { foo: { type: "integer" }, bar: { type: "integer" } }, oneOf: [{ required: ["foo"] }, { required: ["bar"] }], additionalProperties: false },
  { allOf: [object({ bar: { type: "integer" } }, { required: ["bar"] }), object({ foo: { type: "string" } }, { required: ["foo"] })] }, { allOf: [{ type: "integer", maximum: 30 }, { minimum: 2 }] }, { allOf: [{ type: "integer", multipleOf: 2 }], anyOf: [{ multipleOf: 3 }, { multipleOf: 5 }] },
  { type: "string", allOf: [{ pattern: "a" }, { pattern: "b" }] }, { allOf: [object({ foo: {} }, { additionalProperties: false }), object({ bar: {} })] },
  { type: "integer", not: { minimum: 1, maximum: 5 } }, { type: "string", not: { enum: ["a", "ab"] } }, { type: ["integer", "string", "null"], not: { type: "integer" } }, object({ foo: {}, bar: {} }, { not: { required: ["foo"] } }), { type: "string", not: { pattern: "^a" } }, { type: "string", not: { maxLength: 1 } },
  { type: "integer", if: { minimum: 1 }, ...so({ multipleOf: 2 }), else: { maximum: -2 } }, object({ foo: { enum: ["a", "b"] }, bar: { type: "integer" } }, { required: ["foo"], if: { properties: { foo: { const: "a" } } }, ...so({ required: ["bar"] }) }), { type: "integer", if: { maximum: 0 }, else: { multipleOf: 5 } },
  { $defs: { a: { type: "integer" }, b: { $ref: "#/$defs/a" } }, $ref: "#/$defs/b" }, { $defs: { "a~b/c%d": { type: "integer" } }, type: "array", items: { $ref: "#/$defs/a~0b~1c%25d" } }, object({ foo: { $ref: "#" } }, { additionalProperties: false }), object({ $ref: { type: "string" } }),
  { $defs: { tree: object({ value: { type: "integer" }, nodes: { type: "array", items: { $ref: "#/$defs/tree" } } }, { required: ["value"], additionalProperties: false }) }, $ref: "#/$defs/tree" }, { $defs: { n: { type: "integer" } }, $ref: "#/$defs/n", maximum: 3 },
  { type: "object", properties: { foo: { type: "string" } }, unevaluatedProperties: false }, { type: "object", allOf: [{ properties: { foo: {} } }], properties: { bar: {} }, unevaluatedProperties: false },
  { type: "array", prefixItems: [{ type: "string" }], unevaluatedItems: false }, true as unknown as object, {},
];

export const FORMAT_SCHEMAS: readonly object[] = ["date", "time", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri", "uri-reference", "json-pointer", "relative-json-pointer"].map((format) => ({ type: "string", format }));

const ATOMS: readonly unknown[] = [0, 1, 2, 3, 4, 5, 6, -1, -2, -3, 1.1, 1.5, 0.5, 2.5, 100, 99, 1e10, 0.0075, "", "a", "ab", "aab", "abc", "abcd", "aaa", "b", "ba", "foo", "x y", " a", "é", "😀", "😀😀", "1", "\u0000", "a\n", '"', "\\", "/", true, false, null];
const NAMES = ["foo", "bar", "baz", "fooo", "foooooo bar", "a", "ab", "b", "vroom", "f", "é", "$ref", "value", "nodes"];

/** Atoms, lists of few, and objects of up to three names. */
export function values(): readonly unknown[] {
  const few: readonly unknown[] = [0, 1, 2, 3, "a", "foo", "", true, false, null, [], {}, [1], [1, 2], { foo: 1 }, { value: 1 }];
  const lists = few.flatMap((one) => [[one], ...few.map((other) => [one, other])]).concat([[], [1, 2, 3], [1, 2, 1], ["a", "b", "a"], [1, "foo", 2], [1, 2, 3, 4], ["a", 1, "b"], [[1], [2, "a"]]] as unknown[][]);
  const objects: unknown[] = [{}];
  for (const name of NAMES) {
    for (const value of few) objects.push({ [name]: value });
    for (const other of NAMES) if (other !== name) for (const [one, two] of [[1, 2], ["a", 1], [1, "a"], [true, false], [[1], [1, 2]]] as const) objects.push({ [name]: one, [other]: two });
  }
  objects.push({ foo: 1, bar: 2, baz: 3 }, { foo: 1, bar: 2, quux: true }, { value: 1, nodes: [{ value: 2 }, { value: 3, nodes: [] }] }, { value: 1, nodes: [{ nodes: [] }] }, { foo: { foo: {} } }, { foo: { bar: 1 } }, { foo: [1, 2], fooo: 3 });
  return [...ATOMS, ...lists, ...objects];
}

export const FORMAT_TEXTS: readonly string[] = [
  "1963-06-19", "2020-02-29", "2021-02-29", "1900-02-29", "2000-02-29", "2020-04-31", "2020-13-01", "2020-00-10", "06/19/1963", "2013-350", "1998-1-20", "1963-06-19Z", "1963-06-1৪",
  "08:30:06Z", "08:30:06.283185Z", "23:59:60Z", "22:59:60Z", "24:00:00Z", "23:60:00Z", "08:30:06", "08:30:06+00:20", "08:30:06-08:00", "23:59:59+24:00", "23:59:59-00:60", "8:3:6Z", "12:00:00z",
  "1963-06-19T08:30:06.283185Z", "1963-06-19T08:30:06Z", "1990-02-31T15:59:59.123-08:00", "1998-12-31T23:59:60Z", "1998-12-31T23:58:60Z", "1963-06-19t08:30:06z", "1963-06-19 08:30:06Z", "2013-350T01:01:01", "1963-06-19T08:30:06",
  "P4DT12H30M5S", "P1M", "PT36H", "P", "P1YT", "PT", "P2D1Y", "P1D2H", "P2S", "PT1D", "P2W", "P1Y2W", "P4Y", "PT0S", "P0D", "PT1M", "P1Y1D", "P1YT1S", "-P1D", "PT0.5S",
  "joe.bloggs@example.com", "2962", "te~st@example.com", "~test@example.com", "test~@example.com", '"joe bloggs"@example.com', ".test@example.com", "test.@example.com", "te.s.t@example.com", "te..st@example.com", "joe@", "@example.com", "a@b", "joe@[127.0.0.1]", "o'neil+x/y@a--b.org", "joe@-a.com", "joe@a_b.com",
  "www.example.com", "xn--4gbwdl.xn--wgbh1c", "-a-host", "not_valid", "a-.b", "hostname", "h-0s.t", "a..b", ".a", "a.", "host name", `${"a".repeat(63)}.com`, `${"a".repeat(64)}.com`, "1host", "a--b", "",
  "192.168.0.1", "127.0.0.0.1", "256.256.256.256", "127.0", "087.10.0.1", "0x7f000001", "1.2.3.4 ", "0.0.0.0",
  "::1", "12345::", "::abef", "::abcef", "1:1:1:1:1:1:1:1:1", "1:1:1:1:1:1:1:1", "::", "::42:ff:1", "d6::", ":2:3:4:5:6:7:8", "1:2:3:4:5:6:7:", "1::d6::42", "1::d6:192.168.0.1", "1:2::192.168.0.1", "1::2:192.168.256.1", "::ffff:192.168.0.1", "1:2:3:4:5:::8", "1:2:3:4:5:6:7", "1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:7:1.2.3.4", "fe80::a%eth1", "1::2::3", "::1.2.3",
  "2EB8AA08-AA98-11EA-B4AA-73B441D16380", "2eb8aa08-aa98-11ea-b4aa-73b441d1638", "2eb8aa08-aa98-11ea-73b441d16380", "2eb8aa08-aa98-11ea-b4ga-73b441d16380", "2eb8aa08aa9811eab4aa73b441d16380", "00000000-0000-0000-0000-000000000000",
  "http://foo.bar/?baz=qux#quux", "http://foo.com/blah_(wikipedia)_blah#cite-1", "http://-.~_!$&'()*+,;=:%40:80%2f::::::@example.com", "http://142.42.1.1/", "ftp://ftp.is.co.za/rfc/rfc1808.txt", "ldap://[2001:db8::7]/c=GB?objectClass?one", "mailto:John.Doe@example.com", "news:comp.infosystems", "tel:+1-816-555-1212", "urn:oasis:names:x", "//foo.bar/?baz", "/abc", "\\\\WINDOWS\\f", "abc", "http:// shouldfail.com", ":// should fail", "bar,baz:foo", "https://[@example.org/test.txt", "http://example.org/%zz", "a:b#c#d", "http://a/<b>", "h:", "#frag", "?q", "a/b:c", "./a:b", "http://[1:2:3:4:5:6:7:8]:80/", "x://[v1.a:b]",
  "/foo/bar~0/baz~1/%a", "/foo/bar~", "/foo//bar", "/foo/bar/", "/~1.1", "/~2", "/~~", "foo", "#/", "/", "0", "1/0", "0/baz/bim", "2/0/baz/1/zip", "0#", "/foo/bar", "-1/foo", "01/a", "0##", "120/foo/bar", "1", "+1/a",
];
