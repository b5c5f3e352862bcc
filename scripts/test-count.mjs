// Turns vitest's JSON report into the three numbers of the closing line.

/** Counts a file that could not be loaded, which has no failed test of its own, as one failure. */
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
