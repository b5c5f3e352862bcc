// Cosines and sines of rope for every token of a step, once for all layers.

#include <cmath>

#include "step-run.h"

namespace rocmforge {

/// Angles as graph/rope-angles.ts computes them: multiplied up in f32 from pair to pair, cosine and sine in double.
void compute_rope_angles(const StepRun& run, Member& member) {
  for (size_t table = 0; table < run.program.angles.size(); table++) {
    const RopeAngles& key = run.program.angles[table];
    const Rope& rope = run.program.ropes[static_cast<size_t>(key.rope)];
    const float* factors = run.weights.vector(key.factors);
    float* const angles = reinterpret_cast<float*>(run.arena + run.layout.angles[table]);
    member.phase(run.step.tokens.size(), {1, 4, SIZE_MAX}, [&](size_t first, size_t end) {
      for (size_t token = first; token < end; token++) {
        float* const cosines = angles + token * 2 * key.pairs;
        float* const sines = cosines + key.pairs;
        double unscaled = run.step.positions[token];
        for (size_t pair = 0; pair < key.pairs; pair++) {
          const double factor = factors == nullptr ? 1 : factors[pair];
          const double angle = static_cast<float>(unscaled / factor) * rope.stretches[pair];
          cosines[pair] = static_cast<float>(std::cos(angle) * rope.magnitude);
          sines[pair] = static_cast<float>(std::sin(angle) * rope.magnitude);
          unscaled = static_cast<float>(unscaled * rope.ratio);
        }
      }
    });
  }
}

}  // namespace rocmforge
