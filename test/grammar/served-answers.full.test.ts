// The same as served-answers.test.ts, ten thousand times.

import { test } from "vitest";
import { checkServedAnswers } from "./served-answers.js";

test("10,000 answers at temperature 2", () => checkServedAnswers(10_000));
