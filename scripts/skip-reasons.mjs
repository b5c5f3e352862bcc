// Why tests were skipped, for the summary: a test states the reason in `context.skip(reason)`, or in parentheses at the
// end of its title or of a group's title.

/** The reason itself may contain parentheses. */
const REASON = /\((?<reason>(?:[^()]|\([^()]*\))+)\)$/;
const SHOWN_FILES = 3;
const NONE = "no reason given";

/** @param {{ titles: readonly string[], note?: string }} test titles from the test's own to the outermost group's */
function reasonOf({ titles, note }) {
  const remarks = titles.flatMap((title) => REASON.exec(title)?.groups.reason ?? []);
  // Other titles may end in parentheses, too; a reason begins with "skipped" or "needs".
  const said = note ?? remarks.find((remark) => /^(?:skipped|needs)\b/.test(remark)) ?? remarks[0];
  return said === undefined ? NONE : said.replace(/^skipped: */, "");
}

/** One line for each reason, the most frequent first: how many tests, why, and where they are. */
export function skipReasons(skipped) {
  const groups = new Map();
  for (const test of skipped) {
    const reason = reasonOf(test);
    const group = groups.get(reason) ?? { reason, count: 0, files: new Set() };
    groups.set(reason, group);
    group.count++;
    group.files.add(test.file);
  }
  const sorted = [...groups.values()].sort(
    (left, right) => right.count - left.count || left.reason.localeCompare(right.reason),
  );
  return sorted.map(({ reason, count, files }) => {
    const shown = [...files].sort().slice(0, SHOWN_FILES).join(", ");
    const more = files.size > SHOWN_FILES ? ` and ${files.size - SHOWN_FILES} more files` : "";
    return `${count} skipped: ${reason} (${shown}${more})`;
  });
}
