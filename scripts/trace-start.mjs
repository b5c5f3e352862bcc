// Prints the parts of a start and when the main thread was busy, on stderr when the process ends. Times are milliseconds
// from the start of the process:
//   node --import ./scripts/trace-start.mjs dist/cli/main.js generate -m model.gguf --backend cuda -p Once -n 1
// A part of a GPU's start is what src/backends/gpu publishes on the channel "rocmforge.start".

import { subscribe } from "node:diagnostics_channel";
import { writeSync } from "node:fs";

/** Shorter pauses of the event loop are not shown. */
const BUSY_MS = 5;
const LOOK_MS = 1;

const lines = [];
const note = (what, startMs, endMs) => lines.push({ what, startMs, endMs });

subscribe("rocmforge.start", ({ what, startMs, endMs }) => note(what, startMs, endMs));
subscribe("rocmforge.load", () => note("the first text was written before", performance.now(), performance.now()));

let last = performance.now();
const look = () => {
  const now = performance.now();
  if (now - last > BUSY_MS + LOOK_MS) note("(main thread busy)", last, now);
  last = now;
  setTimeout(look, LOOK_MS).unref();
};
look();

process.on("exit", () => {
  const row = ({ what, startMs, endMs }) =>
    `${startMs.toFixed(1).padStart(9)} ${endMs.toFixed(1).padStart(9)} ${(endMs - startMs).toFixed(1).padStart(8)}  ${what}\n`;
  lines.sort((left, right) => left.startMs - right.startMs);
  writeSync(2, `    start       end       ms  part\n${lines.map(row).join("")}`);
});
