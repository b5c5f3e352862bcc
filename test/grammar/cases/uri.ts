// URIs as the grammar of RFC 3986, appendix A, has them, rule by rule.

const UNRESERVED = "[A-Za-z0-9._~-]";
const ESCAPED = "%[0-9A-Fa-f]{2}";
const SUB_DELIMITER = "[!$&'()*+,;=]";
const PCHAR = `(?:${UNRESERVED}|${ESCAPED}|${SUB_DELIMITER}|[:@])`;
const SCHEME = "[A-Za-z][A-Za-z0-9+.-]*";
const USER = `(?:${UNRESERVED}|${ESCAPED}|${SUB_DELIMITER}|:)*@`;
const REG_NAME = `(?:${UNRESERVED}|${ESCAPED}|${SUB_DELIMITER})*`;
const AUTHORITY = new RegExp(`^(?:${USER})?(?<host>\\[[^\\]]*\\]|${REG_NAME})(?::[0-9]*)?$`);
const WHOLE = new RegExp(
  `^${SCHEME}:(?://(?<authority>[^/?#]*)(?:/${PCHAR}*)*|/(?:${PCHAR}+(?:/${PCHAR}*)*)?|${PCHAR}+(?:/${PCHAR}*)*|)(?:\\?(?:${PCHAR}|[/?])*)?(?:#(?:${PCHAR}|[/?])*)?$`,
);
const IP_FUTURE = new RegExp(`^v[0-9A-Fa-f]+\\.(?:${UNRESERVED}|${SUB_DELIMITER}|:)+$`);

export function isUri(text: string): boolean {
  const found = WHOLE.exec(text);
  const authority = found?.groups?.["authority"];
  if (found === null) return false;
  if (authority === undefined) return true;
  const host = AUTHORITY.exec(authority)?.groups?.["host"];
  if (host === undefined) return false;
  if (!host.startsWith("[")) return true;
  const inside = host.slice(1, -1);
  // The platform's own reader of addresses judges these.
  return IP_FUTURE.test(inside) || (/^[0-9A-Fa-f:.]+$/.test(inside) && URL.canParse(`http://[${inside}]/`));
}
