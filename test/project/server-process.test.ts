// How the benchmarks over HTTP start a server: with Node's flags of the benchmark, but never with its script.

import { expect, test } from "vitest";
import { inheritedFlags } from "../../bench/server-process.js";

test.each([
  [
    ["--cpu-prof", "--cpu-prof-dir", "profiles"],
    ["--cpu-prof", "--cpu-prof-dir", "profiles"],
  ],
  [["-e", "await main()"], []],
  [
    ["--no-warnings", "--input-type", "module", "-e", "main()", "--cpu-prof"],
    ["--no-warnings", "--cpu-prof"],
  ],
  [["--input-type=module", "--eval=main()", "--cpu-prof"], ["--cpu-prof"]],
  [["-p", "-e", "1"], []],
  [["-pe", "1"], []],
  [["--print", "--cpu-prof"], ["--cpu-prof"]],
])("of %j a server gets %j", (flags, inherited) => {
  expect(inheritedFlags(flags)).toEqual(inherited);
});
