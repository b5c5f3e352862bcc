// HIP's libraries on Windows are looked for wherever AMD's driver, the HIP SDK and pip put them.

import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { TemporaryFolder } from "../../../../../test/support/temporary-folder.js";
import { HIP_DLL, HIPRTC_DLL, librariesIn, windowsHipFolders } from "./windows-folders.js";

const folder = new TemporaryFolder();
afterAll(() => folder[Symbol.dispose]());

function place(...parts: readonly string[]): string {
  const path = join(folder.path, ...parts);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, "");
  return path;
}

const system = place("Windows", "System32", "amdhip64_6.dll");
const newest = place("Windows", "System32", "amdhip64_7.dll");
place("Windows", "System32", "amdhip64_6.dll.bak");
const named = place("sdk", "bin", "amdhip64.dll");
const compiler = place("sdk", "bin", "hiprtc0602.dll");
place("sdk", "bin", "hiprtc-builtins0602.dll");
const installed = place("Program Files", "AMD", "ROCm", "6.10", "bin", "hiprtc0610.dll");
const older = place("Program Files", "AMD", "ROCm", "6.2", "bin", "hiprtc0602.dll");
const pip = place("venv", "Lib", "site-packages", "_rocm_sdk_core", "bin", "amdhip64_7.dll");

const environment = {
  SystemRoot: folder.file("Windows"),
  ProgramFiles: folder.file("Program Files"),
  HIP_PATH: folder.file("sdk"),
  HIP_PATH_57: folder.file("missing"),
  VIRTUAL_ENV: folder.file("venv"),
};

it("finds the runtime in the SDK, in pip's packages and in System32, the newest first", () => {
  expect(librariesIn(windowsHipFolders(environment), HIP_DLL)).toEqual([named, pip, newest, system]);
});

it("finds hiprtc, and does not take its built-in headers for it", () => {
  expect(librariesIn(windowsHipFolders(environment), HIPRTC_DLL)).toEqual([compiler, installed, older]);
});

it("finds nothing on a machine without any of them", () => {
  const nowhere = { SystemRoot: folder.file("nowhere"), ProgramFiles: folder.file("nowhere") };
  expect(windowsHipFolders(nowhere)).toEqual([]);
  expect(librariesIn([folder.file("nowhere")], HIP_DLL)).toEqual([]);
});
