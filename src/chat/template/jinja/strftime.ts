// Python's strftime as far as templates use it, in English and local time.

const MONTHS = "January February March April May June July August September October November December".split(" ");
const DAYS = "Sunday Monday Tuesday Wednesday Thursday Friday Saturday".split(" ");
const DAY_MS = 86_400_000;

const FIELDS: Readonly<Record<string, (date: Date) => string>> = {
  Y: (date) => String(date.getFullYear()),
  y: (date) => padded(date.getFullYear() % 100),
  m: (date) => padded(date.getMonth() + 1),
  B: (date) => MONTHS[date.getMonth()] as string,
  b: (date) => (MONTHS[date.getMonth()] as string).slice(0, 3),
  d: (date) => padded(date.getDate()),
  e: (date) => String(date.getDate()).padStart(2, " "),
  j: (date) =>
    padded(
      Math.round(
        (Date.UTC(date.getFullYear(), date.getMonth(), date.getDate()) - Date.UTC(date.getFullYear(), 0, 1)) / DAY_MS,
      ) + 1,
      3,
    ),
  A: (date) => DAYS[date.getDay()] as string,
  a: (date) => (DAYS[date.getDay()] as string).slice(0, 3),
  w: (date) => String(date.getDay()),
  H: (date) => padded(date.getHours()),
  I: (date) => padded(date.getHours() % 12 || 12),
  M: (date) => padded(date.getMinutes()),
  S: (date) => padded(date.getSeconds()),
  p: (date) => (date.getHours() < 12 ? "AM" : "PM"),
  F: (date) => `${FIELDS["Y"]?.(date)}-${FIELDS["m"]?.(date)}-${FIELDS["d"]?.(date)}`,
  T: (date) => `${FIELDS["H"]?.(date)}:${FIELDS["M"]?.(date)}:${FIELDS["S"]?.(date)}`,
  z: (date) => offset(date),
  Z: (date) => `UTC${offset(date)}`,
  "%": () => "%",
};

/** Formats a date; `%-d` omits the leading zero, and unknown codes are kept. */
export function strftime(date: Date, format: string): string {
  return format.replaceAll(/%(-?)([A-Za-z%])/g, (whole, bare: string, letter: string) => {
    const field = Object.hasOwn(FIELDS, letter) ? FIELDS[letter]?.(date) : undefined;
    if (field === undefined) return whole;
    return bare === "" ? field : field.replace(/^[0 ]+(?=\d)/, "");
  });
}

function padded(value: number, digits = 2): string {
  return String(value).padStart(digits, "0");
}

function offset(date: Date): string {
  const minutes = -date.getTimezoneOffset();
  const size = Math.abs(minutes);
  return `${minutes < 0 ? "-" : "+"}${padded(Math.trunc(size / 60))}${padded(size % 60)}`;
}
