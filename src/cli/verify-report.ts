// The report of `rocmforge verify` as Markdown to paste: versions, card, driver and compiler, then the families of the
// conformance suite with what passed and failed. Text from drivers is made printable.

import type { FamilyResult } from "../verify/verification.js";
import { countOf, printable } from "./format.js";

/** Everything that a verification found out. */
export interface VerifyReport {
  readonly rocmforge: string;
  readonly node: string;
  readonly platform: string;
  readonly backend: string;
  /** One line: what computes, and how. */
  readonly summary: string;
  readonly driver?: string;
  readonly compiler?: string;
  readonly full: boolean;
  readonly families: readonly FamilyResult[];
  /** Accelerations that were disabled because their results were wrong. */
  readonly notices: readonly string[];
  readonly seconds: number;
  /** Whether every case that the backend supports passed. */
  readonly passed: boolean;
}

/** The report as text. */
export function describeVerification(report: VerifyReport): string {
  const { rocmforge, node, platform, backend, summary, driver, compiler, full, families, notices, seconds } = report;
  const lines = [
    "# rocmforge verify",
    "",
    `- rocmforge: ${rocmforge}, node ${node}, ${platform}`,
    `- backend: ${backend}: ${printable(summary)}`,
    ...(driver === undefined ? [] : [`- driver: ${printable(driver)}`]),
    ...(compiler === undefined ? [] : [`- compiler: ${printable(compiler)}`]),
    `- suite: ${full ? "full" : "short; --full has all types and more sizes"}`,
    "",
    "| family | passed | failed | not supported | largest error | seconds |",
    "| --- | ---: | ---: | ---: | ---: | ---: |",
    ...families.map(familyRow),
    "",
    ...notices.map((notice) => `- ${printable(notice)}`),
    ...failureLines(families),
    `**${resultText(report)}** (${seconds.toFixed(1)} s)`,
    "",
  ];
  return lines.join("\n");
}

function familyRow({ family, passed, failed, skipped, largestError, milliseconds }: FamilyResult): string {
  const error = largestError === 0 ? "0" : Math.sqrt(largestError).toExponential(1);
  return `| ${family} | ${passed} | ${failed.length} | ${skipped} | ${error} | ${(milliseconds / 1000).toFixed(1)} |`;
}

function failureLines(families: readonly FamilyResult[]): readonly string[] {
  const lines = families.flatMap(({ family, failed }) =>
    failed.map(({ name, what }) => `- **failed**: ${family}, ${name}: ${printable(what)}`),
  );
  return lines.length === 0 ? [] : ["## Failures", "", ...lines, ""];
}

function resultText({ families, passed, backend }: VerifyReport): string {
  const failed = families.reduce((sum, family) => sum + family.failed.length, 0);
  const cases = families.reduce((sum, family) => sum + family.passed, failed);
  if (passed) return `${backend} agrees with the reference in ${countOf(cases, "case")}`;
  return `${backend} is wrong in ${failed} of ${countOf(cases, "case")}`;
}
