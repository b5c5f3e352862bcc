// Layer norm: (x − mean) ÷ √(variance + epsilon) × weight + bias. One block a row; grid: one block for each row there may
// be. HELD: rows/held-row.h. WEIGHT_TYPE: of the weights, BIAS_TYPE: of the biases, 0 (F32), 1 (F16) or 30 (BF16);
// BIASED 0: there are none.
// v1 512 threads, the row read once into registers; the variance is that of the differences from the mean, so that it
//    loses nothing to a large mean. Not measured yet.
#include "rows/held-row.h"
#include "weights/weights.h"

#ifndef BIASED
#define BIASED 1
#endif
#ifndef BIAS_TYPE
#define BIAS_TYPE 0
#endif

struct LayerNormArguments {
  const float* input;
  const u8* weight;
  const u8* bias;
  const int* row_count;
  float* out;
  int width;
  int input_stride;
  int out_stride;
  float epsilon;
};

KERNEL(layer_norm_rows, LayerNormArguments, kRowThreads) {
  dependency_release();
  const int quads = quads_of(a.width);
  const Team team = block_team(quads);
  if (team.thread >= team.threads) return;
  const HeldWeights weights = hold_weights(a.weight, a.width, team);
  const int rows = *a.row_count;
  dependency_wait();
  const int index = block_x();
  if (index >= rows) return;
  const HeldRow<Row> row = hold_row(row_of(a.input, index, a.input_stride, a.width), team, quads);
  float sum = 0;
  each_quad(row, [&](int, const Quad& values) {
#pragma unroll
    for (int i = 0; i < 4; i++) sum += values.at[i];
  });
  const float mean = team_sum(team, sum) / float(a.width);
  // The second sum uses the same shared memory.
  if (team.threads > WAVE) barrier();
  float squares = 0;
  each_quad(row, [&](int quad, const Quad& values) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const float difference = quad * 4 + i < a.width ? values.at[i] - mean : 0.0f;
      squares = fma(difference, difference, squares);
    }
  });
  const float inverse = reciprocal_root(team_sum(team, squares) / float(a.width) + a.epsilon);
  const Row out = row_of(a.out, index, a.out_stride, a.width);
  const auto write = [&](int quad, const Quad& values, const Quad& weight) {
    Quad result;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int column = quad * 4 + i;
      const float bias = BIASED && column < a.width ? Plain<BIAS_TYPE>::value(a.bias, column) : 0.0f;
      result.at[i] = fma((values.at[i] - mean) * inverse, weight.at[i], bias);
    }
    write_quad(out, quad, result);
  };
#pragma unroll
  for (int sweep = 0; sweep < HELD; sweep++)
    write(sweep * team.threads + team.thread, row.held[sweep], weights.held[sweep]);
  for (int quad = HELD * team.threads + team.thread; quad < quads; quad += team.threads)
    write(quad, read_quad(row.source, quad), read_weights(a.weight, a.width, quad));
}
