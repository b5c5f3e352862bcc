// String formats that are supported, as regular expressions and lengths. They follow the RFCs, without rare forms
// (quoted local parts of addresses, leap seconds). Other formats are annotations.

/** The strings of a `format`: a pattern that they match, and their greatest length if it is limited. */
export interface StringFormat {
  readonly pattern: string;
  readonly maxLength?: number;
}

// RFC 1123: 63 characters in a label, 253 in a name.
const HOST_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
const HOST = `${HOST_LABEL}(?:\\.${HOST_LABEL})*`;
const MAX_HOST = 253;
const BYTE = "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
const IPV4 = `${BYTE}(?:\\.${BYTE}){3}`;
const HEX_GROUP = "[0-9a-fA-F]{1,4}";
// RFC 3339. The 29th of February exists in years that are divisible by 4, but by 100 only if also by 400.
const LEAP_YEAR = "(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)";
const DATE = [
  "\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])",
  "(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)",
  `02-(?:0[1-9]|1\\d|2[0-8]))|${LEAP_YEAR}-02-29`,
].join("|");
const TIME = "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,9})?(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)";
const DURATION_TIME = "T(?:\\d+H(?:\\d+M(?:\\d+S)?)?|\\d+M(?:\\d+S)?|\\d+S)";
const DURATION_DATE = "(?:\\d+D|\\d+M(?:\\d+D)?|\\d+Y(?:\\d+M(?:\\d+D)?)?)";
// RFC 5321: 64 characters before the @, and a host name with a dot after it.
const ATOM = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";

function ipv6(): string {
  const full = `(?:${HEX_GROUP}:){7}${HEX_GROUP}`;
  // "::" replaces missing groups, with some groups before it and some after it.
  const short = Array.from({ length: 8 }, (_, before) => {
    const head = before === 0 ? ":" : `(?:${HEX_GROUP}:){${before}}`;
    return before === 7 ? `${head}:` : `${head}:(?:${HEX_GROUP}(?::${HEX_GROUP}){0,${6 - before}})?`;
  });
  return [full, ...short].join("|");
}

// RFC 3986.
const ESCAPE = "%[0-9a-fA-F]{2}";
const unit = (more: string): string => `(?:[A-Za-z0-9._~!$&'()*+,;=${more}-]|${ESCAPE})`;
const SEGMENT_CHARACTER = unit(":@");
const SEGMENT = `${SEGMENT_CHARACTER}*`;
const AUTHORITY = `(?:${unit(":")}*@)?(?:\\[(?:${ipv6()})\\]|${unit("")}*)(?::\\d*)?`;
const PATHS = `/(?:${SEGMENT_CHARACTER}+(?:/${SEGMENT})*)?`;
const TAIL = `(?:\\?${unit(":@/?")}*)?(?:#${unit(":@/?")}*)?`;
const URI = `[A-Za-z][A-Za-z0-9+.-]*:(?://${AUTHORITY}(?:/${SEGMENT})*|${PATHS}|${SEGMENT_CHARACTER}+(?:/${SEGMENT})*|)${TAIL}`;
const RELATIVE = `(?://${AUTHORITY}(?:/${SEGMENT})*|${PATHS}|${unit("@")}+(?:/${SEGMENT})*|)${TAIL}`;

/** The formats that are enforced, by the value of `format`. */
export const STRING_FORMATS: Readonly<Record<string, StringFormat>> = {
  date: { pattern: `^(?:${DATE})$` },
  time: { pattern: `^${TIME}$` },
  "date-time": { pattern: `^(?:${DATE})T${TIME}$` },
  duration: { pattern: `^P(?:${DURATION_DATE}(?:${DURATION_TIME})?|${DURATION_TIME}|\\d+W)$` },
  email: { pattern: `^${ATOM}(?:\\.${ATOM})*@${HOST_LABEL}(?:\\.${HOST_LABEL})+$`, maxLength: 254 },
  hostname: { pattern: `^${HOST}$`, maxLength: MAX_HOST },
  ipv4: { pattern: `^${IPV4}$` },
  ipv6: { pattern: `^(?:${ipv6()})$` },
  uuid: { pattern: "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$" },
  uri: { pattern: `^${URI}$` },
  "uri-reference": { pattern: `^(?:${URI}|${RELATIVE})$` },
  "json-pointer": { pattern: "^(?:/(?:[^~/]|~[01])*)*$" },
  "relative-json-pointer": { pattern: "^(?:0|[1-9]\\d*)(?:#|(?:/(?:[^~/]|~[01])*)*)$" },
};
