// The completion scripts in zsh and fish, which are installed for it if that is allowed.

import { installPackages, mayInstall } from "../support/debian-packages.js";
import { missingProgram } from "./completing-shell.js";
import { describeCompletion } from "./completion-cases.js";

const missing = (): string | undefined => missingProgram("script", "zsh", "fish");
if (missing() !== undefined && mayInstall()) await installPackages(["bsdutils", "zsh", "fish"], async () => missing());

describeCompletion();
