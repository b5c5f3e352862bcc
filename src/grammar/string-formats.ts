// Formats of strings that the rules follow, as regular expressions. They are narrower than the standards where these have
// forms that nobody writes, and wider in one thing alone: characters are not counted (63 in a label of a host name, 64
// before the @), since each count is a state of the grammar, and makes a mask ten times as slow. Other formats are notes.

const HOST_LABEL = "[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*";
const HOST = `${HOST_LABEL}(?:\\.${HOST_LABEL})*`;
const BYTE = "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
const HEX_GROUP = "[0-9a-fA-F]{1,4}";
const DATE = [
  "\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])",
  "(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)",
  // The 29th would need the year.
  "02-(?:0[1-9]|1\\d|2[0-8]))",
].join("|");
const TIME = "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,9})?(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)";
const LOCAL_PART = "[A-Za-z0-9_%+-]+(?:\\.[A-Za-z0-9_%+-]+)*";
const URI_CHARACTER = "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9a-fA-F]{2})";

const ipv6 = (): string => {
  const full = `(?:${HEX_GROUP}:){7}${HEX_GROUP}`;
  // "::" stands for what is missing: so many groups before it, so many behind.
  const short = Array.from({ length: 8 }, (_, before) => {
    const head = before === 0 ? ":" : `(?:${HEX_GROUP}:){${before}}`;
    return before === 7 ? `${head}:` : `${head}:(?:${HEX_GROUP}(?::${HEX_GROUP}){0,${6 - before}})?`;
  });
  return [full, ...short].join("|");
};

export const STRING_FORMATS: Readonly<Record<string, string>> = {
  date: `^${DATE}$`,
  time: `^${TIME}$`,
  "date-time": `^(?:${DATE})T${TIME}$`,
  duration: "^P(?:\\d+W|\\d+Y(?:\\d+M(?:\\d+D)?)?(?:T\\d+H(?:\\d+M(?:\\d+S)?)?)?|\\d+M(?:\\d+D)?|\\d+D(?:T\\d+H)?|T(?:\\d+H(?:\\d+M(?:\\d+S)?)?|\\d+M(?:\\d+S)?|\\d+S))$",
  email: `^${LOCAL_PART}@${HOST_LABEL}(?:\\.${HOST_LABEL})+$`,
  hostname: `^${HOST}$`,
  ipv4: `^${BYTE}(?:\\.${BYTE}){3}$`,
  ipv6: `^(?:${ipv6()})$`,
  uuid: "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$",
  uri: `^[A-Za-z][A-Za-z0-9+.-]*://${HOST}(?::\\d{1,5})?(?:/${URI_CHARACTER}*)*(?:\\?(?:${URI_CHARACTER}|[/?])*)?(?:#(?:${URI_CHARACTER}|[/?])*)?$`,
  "json-pointer": "^(?:/(?:[^~/]|~[01])*)*$",
};
