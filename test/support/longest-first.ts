// The order of test files: the longest first, so that none of them is still running when the other worker has nothing
// left to do, and unit tests last, which are short. Only files of ten seconds or more need to be listed.

import { BaseSequencer, type TestSpecification } from "vitest/node";

/**
 * About by how long they take on two cores with empty caches. The first compiles and computes on both cores, so those after
 * it mind no slow machine; servers and others with time limits follow when it is done.
 */
export const LONGEST_FILES: readonly string[] = [
  "test/project/native/native.full.test.ts",
  "test/conformance/models.test.ts",
  "test/conformance/cache-groups.test.ts",
  "test/conformance/attributes.test.ts",
  "test/conformance/experts.test.ts",
  "test/gpu/checking/wrong-kernels.test.ts",
  "test/conformance/attention-forms.test.ts",
  "test/conformance/expert-networks.test.ts",
  "test/conformance/golden/golden-models.test.ts",
  "test/conformance/golden/golden-cpu.test.ts",
  "test/conformance/golden/architectures.test.ts",
  "test/conformance/speculation.test.ts",
  "test/conformance/deterministic.test.ts",
  "test/conformance/recurrent-serving.test.ts",
  "test/gpu/large-steps.test.ts",
  "test/gpu/wide-gemm.test.ts",
  "test/gpu/lane-gemv.test.ts",
  "test/conformance/deep-attention.test.ts",
  "test/conformance/families.test.ts",
  "test/conformance/models/recorded.test.ts",
  "test/conformance/grouped-gemm.test.ts",
  "test/conformance/tokens.test.ts",
  "test/conformance/models/naming.test.ts",
  "test/conformance/block-copies.test.ts",
  "test/conformance/models/draft-heads.test.ts",
  "test/conformance/latent-layers.test.ts",
  "test/conformance/matmul.test.ts",
  "test/gpu/int8-gemm.test.ts",
  "test/gpu/graphs.test.ts",
  "test/gpu/toolchains/predeclared-names.test.ts",
  "test/gpu/decoding.test.ts",
  "test/gpu/memory-fit.test.ts",
  "test/gpu/lifetimes.test.ts",
  "test/gpu/tuning.test.ts",
  "test/gpu/tuning-sizes.test.ts",
  "test/gpu/async-steps.test.ts",
  "test/gpu/async-hybrids.test.ts",
  "test/gpu/hip/failures.test.ts",
  "test/gpu/cuda/failures.test.ts",
  "test/server/serving/together.test.ts",
  "test/server/serving/hostile.test.ts",
  "test/server/serving/clients.test.ts",
  "test/project/native-build.test.ts",
  "test/project/examples.test.ts",
  "test/project/document-programs.test.ts",
  "test/project/scripts.test.ts",
  "test/library/chat/hostile-templates.test.ts",
  "test/library/engine/recurrent.test.ts",
  "test/server/tool-conventions.test.ts",
  "test/grammar/grammar-compiler.test.ts",
  "test/grammar/served-answers.test.ts",
  "test/cli/bench.test.ts",
  "test/cli/serve.test.ts",
  "test/cli/launch.test.ts",
  "test/server/unread.test.ts",
  "test/server/serving/soak.test.ts",
  "test/fuzz/cpu-bindings.test.ts",
  "test/cli/run.test.ts",
  "test/cli/doctor.test.ts",
  "test/cli/usage.test.ts",
  "test/cli/pull.test.ts",
  "test/cli/verify.test.ts",
  "test/cli/chat.test.ts",
  "test/cli/tune.test.ts",
  "test/cli/generate.test.ts",
  "test/cli/readme.test.ts",
  "test/hub/interruptions.test.ts",
  "test/fuzz/family-mutation.test.ts",
];

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const inUsualOrder = await super.sort(files);
    return inUsualOrder.toSorted((left, right) => placeOf(left) - placeOf(right));
  }
}

function placeOf({ moduleId, project }: TestSpecification): number {
  if (project.name === "unit") return LONGEST_FILES.length + 1;
  const place = LONGEST_FILES.findIndex((file) => moduleId.endsWith(`/${file}`));
  return place === -1 ? LONGEST_FILES.length : place;
}
