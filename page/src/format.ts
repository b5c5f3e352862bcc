// Numbers, sizes and times as people read them.

const UNITS = ["B", "kB", "MB", "GB", "TB"] as const;
const STEP = 1000;

/** 1234567 as "1.23 MB". */
export function formatBytes(bytes: number): string {
  let [value, unit] = [bytes, 0];
  while (value >= STEP && unit < UNITS.length - 1) [value, unit] = [value / STEP, unit + 1];
  const digits = unit === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return `${value.toFixed(digits)} ${UNITS[unit]}`;
}

/** 12345 as "12,345". */
export function formatCount(count: number): string {
  return count.toLocaleString("en-US");
}

/** 4096 as "4.1k". */
export function formatShort(count: number): string {
  if (count < STEP) return String(count);
  const thousands = count / STEP;
  return `${thousands.toFixed(thousands < 10 ? 1 : 0)}k`;
}

/** 1234 as "1.2 s". */
export function formatMs(milliseconds: number): string {
  if (milliseconds < STEP) return `${Math.round(milliseconds)} ms`;
  const seconds = milliseconds / STEP;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
}

export function formatRate(perSecond: number): string {
  return perSecond < 10 ? perSecond.toFixed(1) : String(Math.round(perSecond));
}
