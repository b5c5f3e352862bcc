// Templates that try to use up all time or memory, each in another way.

/** A text or a list that is doubled this many times by `{% set s = … %}`. */
const doubling = (start: string, step: string, times: number): string =>
  `{% set s = ${start} %}${`{% set s = ${step} %}`.repeat(times)}`;
const nested = (levels: number, body: string): string =>
  `${Array.from({ length: levels }, (_, level) => `{% for i${level} in range(1000) %}`).join("")}${body}${"{% endfor %}".repeat(levels)}`;
const megabyte = doubling('"x"', "s + s", 20);

export const HOSTILE_TEMPLATES: Readonly<Record<string, string>> = {
  "endless loop": nested(8, "{% set x = 1 %}"),
  "endless output": nested(8, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"),
  "huge range": "{{ range(1000000000) | length }}",
  "infinite range": "{% for i in range(0, 1, 0) %}x{% endfor %}",
  "huge negative range": "{% for i in range(0, -100000000, -1) %}{% endfor %}",
  "doubling text": `${doubling('"ab"', "s + s", 40)}{{ s }}`,
  "doubling text by ~": `${doubling('"ab"', "s ~ s", 40)}{{ s }}`,
  "doubling in a namespace": `{% set n = namespace(s="ab") %}${"{% for i in range(64) %}{% set n.s = n.s + n.s %}{% endfor %}"}{{ n.s }}`,
  "doubling list": `${doubling("[1,2,3]", "s + s", 40)}{{ s | length }}`,
  "doubling list of texts, joined": `${doubling('["abcdefgh"]', "s + s", 17)}${doubling('s | join("")', "s + s", 3)}{{ s | length }}`,
  "replace by itself": `${doubling('"aa"', 's | replace("a", s)', 12)}{{ s }}`,
  "replace nothing by much": `${megabyte}{{ s | replace("", s) | length }}`,
  "split into letters": `${megabyte}${doubling("s", "s + s", 2)}{{ s.split("x") | length }}`,
  "slices of much": `${megabyte}{% for i in range(100000) %}{% for j in range(1000) %}{% set t = s[1:] %}{% endfor %}{% endfor %}`,
  "letters of much, joined by much": `${megabyte}{{ s | join(s) | length }}`,
  "upper case, kept": `${megabyte}{% set n = namespace(l=[]) %}{% for i in range(100000) %}{% set n.l = n.l + [s | upper, s | title] %}{% endfor %}`,
  "wide indent": '{{ "a\\nb\\nc" | indent(2000000000) }}',
  "indent of many lines": `${doubling('"a\\n"', "s + s", 20)}{{ s | indent(1000000) | length }}`,
  "tojson of much, often": `${megabyte}{% set l = [s, s, s, s, s, s, s, s] %}{% set l = [l, l, l, l, l, l, l, l] %}{{ [l, l, l, l, l, l, l, l] | tojson | length }}`,
  "tojson with a wide indent": "{{ [[[[1]]]] | tojson(indent=100000000) | length }}",
  "tojson of a tree that shares": `${doubling("[1]", "[s, s]", 30)}{{ s | tojson | length }}`,
  "text of a tree that shares": `${doubling("[1]", "[s, s]", 30)}{{ s ~ "" }}`,
  "deep lists": `${doubling("[1]", "[s]", 20000)}{{ s | tojson }}`,
  recursion: "{% macro m(x) %}{{ m(x + 1) }}{% endmacro %}{{ m(0) }}",
  "mutual recursion that writes":
    "{% macro a(x) %}y{{ b(x) }}{{ b(x) }}{% endmacro %}{% macro b(x) %}z{% if x < 40 %}{{ a(x + 1) }}{{ a(x + 1) }}{% endif %}{% endmacro %}{{ a(0) }}",
  "recursion that doubles": "{% macro m(s) %}{{ m(s + s) }}{% endmacro %}{{ m('abcdefgh') }}",
  "deep brackets": `{{ ${"(".repeat(50_000)}1${")".repeat(50_000)} }}`,
  "deep lists in the source": `{{ ${"[".repeat(50_000)}${"]".repeat(50_000)} }}`,
  "deep conditions": `${"{% if true %}".repeat(20_000)}${"{% endif %}".repeat(20_000)}`,
  "long sum": `{{ 1${" + 1".repeat(100_000)} }}`,
  "many filters": `{{ "a"${" | upper".repeat(50_000)} }}`,
  "sorting much": "{% for i in range(100000) %}{% set l = range(200000) | sort(reverse=true) %}{% endfor %}",
  "unique of much": "{% for i in range(100000) %}{% set l = range(200000) | unique %}{% endfor %}",
  "all names in a namespace":
    "{% set n = namespace() %}{% for i in range(250000) %}{% for j in range(250000) %}{% set n.x = [n.x, i, j] %}{% endfor %}{% endfor %}",
  "a text times much": '{{ "ab" * 1000000000000 }}',
  "a list times much": "{{ [1] * 1000000000000 }}",
  "nothing times much, in a loop":
    "{% for i in range(250000) %}{% for j in range(250000) %}{% set x = '' * 1000000000000 %}{% endfor %}{% endfor %}",
  "append for ever":
    "{% set l = [] %}{% for i in range(250000) %}{% for j in range(250000) %}{% set _ = l.append(l) %}{% endfor %}{% endfor %}",
  "a list in itself": "{% set l = [] %}{% set _ = l.append(l) %}{{ l }}{{ l | tojson }}",
  "a list in itself, compared":
    "{% set l = [] %}{% set _ = l.append(l) %}{% set k = [] %}{% set _ = k.append(k) %}{{ l == k }}",
  "format of much": `${megabyte}{% set n = namespace(s=s) %}{% for i in range(60) %}{% set n.s = "%s%s" | format(n.s, n.s) %}{% endfor %}`,
  "texts in turn, cut to pieces":
    "{% set n = namespace(s='') %}{% for i in range(60) %}{% set n.s = n.s + 'a' + messages[0].content + n.s %}{% endfor %}{{ n.s[::2] | list | join('-') }}",
  "a deep key": `${doubling("(1,)", "(s, s)", 30)}{{ {s: 1} }}`,
  powers: `{% for i in range(250000) %}{% for j in range(250000) %}{% set x = 9 ** 300 %}{% endfor %}{% endfor %}`,
  "too long": "x".repeat(600_000),
  "not a template": "{% for %}{{ }",
  unclosed: "{% if true %}",
  "unknown filter": "{{ messages | steal }}",
  raise: "{{ raise_exception('never') }}",
  "call of nothing": "{{ nothing() }}",
  prototype: "{{ messages.__proto__.constructor('return process')() }}",
  "constructor of a text": "{{ ''.constructor.constructor('return process')() }}",
  "nul and surrogates": "{{ '\u0000\ud800' | upper | nope }}",
};

/** Large or strange, and within the limits. */
export const HARMLESS_TEMPLATES: Readonly<Record<string, string>> = {
  "many literals": `{{ [${'"a",'.repeat(100_000)}1] | length }}`,
  "property of nothing": "{{ nothing.at.all }}",
  "many loops": "{% for i in range(200000) %}{% endfor %}",
  "breaks and continues":
    "{% for i in range(5000) %}{% if i % 2 %}{% continue %}{% endif %}{% for j in range(9) %}{% break %}{% endfor %}{% endfor %}",
  "garbage that is never kept": `${megabyte}{% for i in range(300) %}{% set t = s | upper %}{% set u = t | lower %}{% endfor %}`,
  "a slice of much": `${megabyte}{{ s[1:] | length }}`,
};
