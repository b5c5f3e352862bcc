// `rocmforge verify` from the command line: on the CPU the short suite passes, and its report can be pasted.

import { expect, it } from "vitest";
import { describeCpu } from "../conformance/subjects.js";
import { rocmforge } from "./command-line.js";

describeCpu("rocmforge verify", () => {
  it("reports every family and status 0 if all of them pass", async () => {
    const { status, stdout, stderr } = await rocmforge(["verify", "--backend", "cpu"]);
    expect(stdout).toMatch(/^# rocmforge verify\n\n- rocmforge: \S+, node v\d+\S*, \S+\n- backend: cpu: C\+\+ kernels/);
    expect(stdout).toMatch(/\| matmul \| \d+ \| 0 \| 0 \| \S+ \| \d+\.\d \|\n/);
    expect(stdout).toMatch(/\*\*cpu agrees with the reference in \d{3} cases\*\* \(\d+\.\d s\)\n$/);
    // A line for each family, although stderr is a pipe.
    expect(stderr).toMatch(/^rocmforge: verified matmul: \d+ passed, 0 failed \(\d+\.\d s\)$/m);
    expect(stderr.match(/^rocmforge: verified /gm)).toHaveLength(stdout.match(/^\| [a-z-]+ \| \d/gm)?.length ?? 0);
    expect(status).toBe(0);
  });
});
