// Turns vitest's JSON report into the three numbers of the closing line.

/** A file that could not be loaded has no failed test of its own and counts as one failure. */
export function countResults(report) {
  const unloaded = report.testResults.filter(
    (file) => file.status === "failed" && !file.assertionResults.some((test) => test.status === "failed"),
  );
  return {
    passed: report.numPassedTests,
    failed: report.numFailedTests + unloaded.length,
    skipped: report.numPendingTests + report.numTodoTests,
  };
}
