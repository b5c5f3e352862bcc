// The reference backend with GELU as llama.cpp computes it on the CPU, from a table of 16-bit floats, so that only the meaning of
// the weights is compared.

import { ACTIVATIONS } from "../../../src/backends/reference/activations.js";
import { ReferenceBackend } from "../../../src/backends/reference/backend.js";
import { tableGelu } from "./gemma-cases.js";

const gelu = tableGelu((x) => ACTIVATIONS.gelu(x, 1));

export function tableGeluBackend(): ReferenceBackend {
  return new ReferenceBackend({ activations: { gelu: (gate, up) => gelu(gate) * up } });
}
