// Checks of what is not this package's own work: replays of captured graphs, and matmuls of the BLAS library.
//
// compare_words counts the words in which two buffers differ. Grid: any; blocks share the buffers.
// check_matmul looks at one element in each 16 × 16 tile of a GEMM, so that a tile that was left out or computed
// wrongly is seen whatever the library's own tiles are. Each wave computes one dot term in f32 and compares it with
// the library's result: more than 2^-11 of the sum of the products' magnitudes apart is wrong, and so is a result that
// is not finite.
// Elements whose own dot term is not finite are not judged. Width: a multiple of 32.
// Grid: x = ⌈⌈rows ÷ 16⌉ ÷ waves a block⌉, y = ⌈tokens ÷ 16⌉.
// v1 one element a wave, 16 bytes of weights and of inputs a lane and turn.
#include "device/portable.h"

struct CompareArguments {
  const u32* left;
  const u32* right;
  u32* different;
  u64 words;
  int blocks;
};

constexpr int kCheckThreads = 256;

KERNEL(compare_words, CompareArguments, kCheckThreads) {
  dependency_release();
  dependency_wait();
  u32 different = 0;
  const u64 step = u64(a.blocks) * kCheckThreads;
  for (u64 i = u64(block_x()) * kCheckThreads + u64(thread_index()); i < a.words; i += step)
    different += a.left[i] != a.right[i] ? 1 : 0;
  different = wave_sum(different);
  if (lane_index() == 0 && different > 0) atomic_add(a.different, different);
}

struct CheckMatmulArguments {
  const u16* weights;
  const u16* inputs;
  const float* out;
  /** How many elements were judged, and how many of them are wrong. */
  u32* found;
  int rows;
  int width;
  int tokens;
  int input_stride;
  int out_stride;
};

constexpr int kSampleTile = 16;
constexpr float kTolerance = 1.0f / 2048.0f;

DEVICE bool is_finite(float value) { return (bits_of(value) & 0x7f800000u) != 0x7f800000u; }

/** Which element of a tile is looked at: another one in every tile. */
DEVICE u32 sampled(u32 tile, u32 other) { return ((tile * 0x9e3779b1u) ^ (other * 0x85ebca6bu)) >> 28; }

DEVICE void add_terms(u32 weights, u32 inputs, float& sum, float& magnitudes) {
#pragma unroll
  for (int half = 0; half < 32; half += 16) {
    const float term = half_to_float(u16(weights >> half)) * half_to_float(u16(inputs >> half));
    sum += term;
    magnitudes += magnitude(term);
  }
}

KERNEL(check_matmul, CheckMatmulArguments, kCheckThreads) {
  dependency_release();
  dependency_wait();
  const int row_tile = block_x() * (kCheckThreads / WAVE) + wave_index();
  if (row_tile * kSampleTile >= a.rows) return;
  const int token_tile = block_y();
  const int row = min(row_tile * kSampleTile + int(sampled(u32(row_tile), u32(token_tile))), a.rows - 1);
  const int token = min(token_tile * kSampleTile + int(sampled(u32(token_tile), u32(row_tile))), a.tokens - 1);
  const u16* const weights = a.weights + u64(row) * u64(a.width);
  const u16* const inputs = a.inputs + u64(token) * u64(a.input_stride);
  float sum = 0, magnitudes = 0;
  for (int column = lane_index() * 8; column < a.width; column += WAVE * 8) {
    const Words4 left = load_shared(weights + column), right = load_shared(inputs + column);
    add_terms(left.x, right.x, sum, magnitudes);
    add_terms(left.y, right.y, sum, magnitudes);
    add_terms(left.z, right.z, sum, magnitudes);
    add_terms(left.w, right.w, sum, magnitudes);
  }
  sum = wave_sum(sum);
  magnitudes = wave_sum(magnitudes);
  if (lane_index() != 0 || !is_finite(magnitudes)) return;
  atomic_add(a.found, 1);
  const float distance = magnitude(a.out[u64(token) * u64(a.out_stride) + u64(row)] - sum);
  if (!(distance <= magnitudes * kTolerance)) atomic_add(a.found + 1, 1);
}
