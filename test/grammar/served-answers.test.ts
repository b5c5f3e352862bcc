// Whatever the model chooses, an answer that the server calls finished has its form.

import { test } from "vitest";
import { checkServedAnswers } from "./served-answers.js";

test("100 answers at temperature 2", () => checkServedAnswers(100));
