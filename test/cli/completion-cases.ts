// The tests of the completion scripts, for shells that are installed: bash in every run, zsh and fish if they are there,
// and in long runs, which install them.

import { describe, expect, it } from "vitest";
import { COMPLETED, CompletingShell, missingProgram, printed } from "./completing-shell.js";

const TYPED = COMPLETED.map(([typed]) => typed);
const EXPECTED = COMPLETED.map(([, args]) => printed(args));

function skipText(reason: string | undefined): string {
  return reason === undefined ? "" : ` (skipped: ${reason})`;
}

/** A test of the script in bash. */
export function describeBashCompletion(): void {
  const noBash = missingProgram("script", "bash");
  it.skipIf(noBash !== undefined)(`completion in bash${skipText(noBash)}`, () => {
    using shell = new CompletingShell();
    const before = [`source ${shell.script("bash")}`];
    expect(shell.type("bash --norc --noprofile -i", before, TYPED)).toEqual(EXPECTED);
  });
}

/** Tests of the scripts in other shells. */
export function describeCompletion(): void {
  describe("completion", () => {
    const noZsh = missingProgram("script", "zsh");
    it.skipIf(noZsh !== undefined)(`in zsh${skipText(noZsh)}`, () => {
      using shell = new CompletingShell();
      const before = ["autoload -U compinit; compinit -u -D", `source ${shell.script("zsh")}`];
      expect(shell.type("zsh -f -i", before, TYPED)).toEqual(EXPECTED);
    });

    const noFish = missingProgram("fish");
    it.skipIf(noFish !== undefined)(`in fish${skipText(noFish)}`, () => {
      using shell = new CompletingShell();
      const offers = shell.fishOffers(TYPED.map((typed) => `rocmforge ${typed.replace("␉", "")}`));
      expect(offers).toEqual(COMPLETED.map(([, args]) => expect.arrayContaining([args.at(-1)]) as unknown));
      expect(shell.fishOffers(["rocmforge serve --log-format ", "rocmforge rm "])).toEqual([
        ["auto", "json", "pretty"],
        ["hf:tester/fable:Q4_K_M", "ollama:other:latest"],
      ]);
    });
  });
}
