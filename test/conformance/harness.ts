// Small programs for any backend, as `rocmforge verify` runs them.

export {
  type CaseWeight,
  type ProgramCase,
  floats,
  randomWeight,
  inputTable,
  programOf,
  unsupportedReason,
  runSteps,
  withProgram,
  plainStep,
  hiddenOf,
  normalisedError,
} from "../../src/verify/program-case.js";
