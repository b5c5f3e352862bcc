// Programs with the forms of attention that families are made of, made once for all subjects.

import { createLatentCase, createMixedLayersCase, createPreparedCase } from "../../src/verify/attention-forms.js";
import { remembered } from "../support/remembered.js";

export {
  FORM_BLOCK_TOKENS,
  type LatentShape,
  type Preparation,
  rotate,
  type Rotation,
} from "../../src/verify/attention-forms.js";

export const preparedCase = remembered(createPreparedCase);
export const latentCase = remembered(createLatentCase);
export const mixedLayersCase = remembered(createMixedLayersCase);
