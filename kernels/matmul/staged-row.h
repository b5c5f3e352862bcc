// Quantized rows in a block's shared memory: values in chunks of 16, then the sums, then the scales of all its tokens.
#pragma once
#include "device/portable.h"

/** Where 16 values lie: lanes that read every second chunk, or two of four, meet no bank twice. */
DEVICE int staged_chunk(int chunk) { return chunk ^ ((chunk >> 3 & 1) * 3); }
DEVICE int staged_value_bytes(int tokens, int width) { return (tokens * width + 63) & ~63; }
