// As Python formats these.

import { expect, test } from "vitest";
import { strftime } from "./strftime.js";

const date = new Date(2024, 6, 5, 15, 4, 9);

test.each([
  ["%d %b %Y", "05 Jul 2024"],
  ["%A, %B %-d, %Y", "Friday, July 5, 2024"],
  ["%Y-%m-%dT%H:%M:%S", "2024-07-05T15:04:09"],
  ["%I:%M %p %y %j %a %e", "03:04 PM 24 187 Fri  5"],
  ["%F %T 100%% %Q %-", "2024-07-05 15:04:09 100% %Q %-"],
])("%s", (format, expected) => {
  expect(strftime(date, format)).toBe(expected);
});
