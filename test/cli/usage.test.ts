// A mistake in a command line is reported in one line, with status 2, before any model is opened.

import { symlinkSync } from "node:fs";
import { describe, expect, it } from "vitest";
import packageJson from "../../package.json" with { type: "json" };
import { TemporaryFolder } from "../support/temporary-folder.js";
import { COMMAND_LINE, complaints, rocmforge, rocmforgeInProcess, SMALL_MODEL } from "./command-line.js";

const COMMANDS = [
  "run",
  "generate",
  "chat",
  "serve",
  "launch",
  "pull",
  "list",
  "rm",
  "inspect",
  "tokenize",
  "perplexity",
  "plan",
];
/** Commands that take no -m. */
const WITHOUT_MODEL = ["run", "pull", "list", "rm"];
/** Opening it would fail with another status and code. */
const NO_MODEL = ["-m", "no-such-model.gguf"];

describe("help", () => {
  it.each([[["help"]], [["--help"]], [["-h"]]])("%j lists every command", async (args) => {
    const { status, stdout, stderr } = await rocmforge(args);
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    for (const command of COMMANDS) expect(stdout).toMatch(new RegExp(`^  ${command} `, "m"));
  });

  it.each(COMMANDS)("%s --help shows its options and examples", async (command) => {
    const asked = await rocmforgeInProcess([command, "--help"]);
    expect(asked).toMatchObject({ status: 0, stderr: "" });
    expect(asked.stdout).toMatch(new RegExp(`^usage: rocmforge ${command}`, "m"));
    if (!WITHOUT_MODEL.includes(command)) expect(asked.stdout).toMatch(/^ {2}-m, --model MODEL/m);
    expect(asked.stdout).toMatch(new RegExp(`^examples:\n {2}# .+\n {2}rocmforge ${command} `, "m"));
  });

  it("takes defaults and ranges from the sampler", async () => {
    const { stdout } = await rocmforge(["help", "generate"]);
    expect(stdout).toMatch(/--top-p NUMBER [^(]*\(from\s+0\s+to\s+1;\s+default:\s+0\.95\)/);
  });

  it("prints the version", async () => {
    expect(await rocmforge(["--version"])).toEqual({ status: 0, stdout: `${packageJson.version}\n`, stderr: "" });
  });

  it("without a command shows a short help and fails", async () => {
    const { status, stdout, stderr } = await rocmforge([]);
    expect({ status, stdout }).toEqual({ status: 2, stdout: "" });
    expect(stderr).toContain(COMMANDS.join(", "));
  });
});

describe("the command line", () => {
  it.each<[what: string, args: readonly string[], line: RegExp]>([
    ["an unknown command", ["genrate"], /there is no command "genrate"; did you mean "generate"\?/],
    [
      "a command that resembles none",
      ["walk"],
      /there is no command "walk"; the commands are run, generate, chat, serve/,
    ],
    [
      "an option that resembles none",
      ["plan", "--foo"],
      /unknown option --foo; "rocmforge plan --help" lists them all$/m,
    ],
    ["an option before the command", ["-m", "x"], /expected a command first .* found the option -m/],
    ["an unknown option", ["generate", "--sed", "3"], /\[generate\] unknown option --sed; did you mean --seed\?/],
    ["an unknown short option", ["plan", "-x"], /\[plan\] unknown option -x;/],
    ["a name from Object.prototype", ["plan", "--constructor"], /.*--constructor/],
    ["an argument too many", ["generate", "-p", "a", "b"], /.*unexpected argument "b"/],
    [
      "a number with a tail",
      ["generate", "-p", "a", "-n", "12x"],
      /\[generate\] --tokens: .*whole number.*found "12x"/,
    ],
    ["a fraction of a token", ["generate", "-p", "a", "-n", "1.5"], /.*--tokens/],
    ["an empty number", ["generate", "-p", "a", "--temp="], /.*--temp: .*found ""/],
    ["NaN", ["generate", "-p", "a", "--temp", "NaN"], /.*--temp: .*found "NaN"/],
    ["infinity", ["generate", "-p", "a", "--temp", "1e999"], /.*--temp/],
    ["a negative count", ["generate", "-p", "a", "-n", "-1"], /.*--tokens: .*from 1 .*found "-1"; leave it out/],
    [
      "a negative temperature",
      ["generate", "-p", "a", "--temp", "-1"],
      /.*--temp: expected a number from 0 .*found "-1"/,
    ],
    ["a share above one", ["generate", "-p", "a", "--top-p", "1.01"], /.*--top-p/],
    [
      "a zero where none may be",
      ["generate", "-p", "a", "--repeat-penalty", "0"],
      /.*--repeat-penalty: expected a number from 0.001 to 1000/,
    ],
    ["a context of nothing", ["plan", "--ctx", "0"], /.*--ctx/],
    ["a window that scores nothing", ["perplexity", "-f", "x", "--ctx", "2"], /.*--ctx: .*from 3/],
    ["mirostat 1", ["generate", "-p", "a", "--mirostat", "1"], /.*mirostat: expected 0 \(off\) or 2/],
    ["a bias without a value", ["generate", "-p", "a", "--logit-bias", "5"], /.*--logit-bias: expected ID=VALUE/],
    ["a missing value", ["generate", "-p"], /.*--prompt: expected TEXT after -p, found nothing/],
    ["an option in the place of a value", ["generate", "-n", "--seed", "3"], /.*--tokens: .*found the option --seed/],
    ["a value for a flag", ["plan", "--json=yes"], /.*--json: expected no value/],
    ["no prompt", ["generate"], /.*--prompt: expected a prompt/],
    ["two prompts", ["generate", "-p", "a", "-f", "b"], /.*either --prompt or --file/],
    ["no text to tokenize", ["tokenize"], /.*--file/],
    ["no text to measure", ["perplexity"], /.*--file/],
  ])("rejects %s", async (_what, args, line) => {
    const [command, ...rest] = args;
    const finished = await rocmforgeInProcess(COMMANDS.includes(command) ? [command, ...NO_MODEL, ...rest] : args);
    expect(finished).toMatchObject({ status: 2, stdout: "" });
    expect(finished.stderr).toMatch(line);
    // Codes are for programs, and for --verbose.
    expect(finished.stderr).toMatch(/^rocmforge: (?![A-Z_]+: ).+\n$/);
  });

  it("shows a stack only with --verbose", async () => {
    const args = ["plan", ...NO_MODEL];
    expect((await rocmforge(args)).stderr).toMatch(
      /^rocmforge: \[gguf\] no-such-model\.gguf: no such file; check the path\n$/,
    );
    const verbose = await rocmforge([...args, "--verbose"]);
    expect(verbose.status).toBe(1);
    expect(verbose.stderr).toMatch(/^rocmforge: FILE_NOT_FOUND: .+\n {4}at /);
    expect(verbose.stderr).toMatch(/^caused by Error: ENOENT/m);
  });

  it.each([
    ["hip", 1, /\[hip\] this backend cannot run here: /],
    ["cuda", 1, /\[cuda\] this backend cannot run here: /],
    ["referense", 2, /.*did you mean "reference"\?/],
  ])("rejects the backend %s", async (backend, status, line) => {
    const finished = await rocmforge(["generate", "-m", SMALL_MODEL, "-p", "a", "--backend", backend]);
    expect(finished).toMatchObject({ status, stdout: "" });
    expect(complaints(finished)).toMatch(line);
  });

  it("finds the embedded model from another folder and through a link, as npm installs commands", async () => {
    using folder = new TemporaryFolder();
    symlinkSync(COMMAND_LINE, folder.file("rocmforge"));
    const finished = await rocmforge(["tokenize", "-p", "a"], { cwd: folder.path, program: folder.file("rocmforge") });
    expect(finished).toMatchObject({ status: 0, stdout: expect.stringContaining('65  "a"') as string });
  });
});
