// ROCMFORGE_UNROLL(8) before a loop lets it be unrolled whole, which makes its counter a constant: shifts get their
// immediates and sums their registers. Builds with sanitizers leave it out: their checks would grow with every copy.

#pragma once

#define ROCMFORGE_PRAGMA(text) _Pragma(#text)
#if defined(__SANITIZE_ADDRESS__)
#define ROCMFORGE_UNROLL(count)
#define ROCMFORGE_INLINE
#elif defined(__clang__)
#define ROCMFORGE_UNROLL(count) ROCMFORGE_PRAGMA(unroll(count))
#else
#define ROCMFORGE_UNROLL(count) ROCMFORGE_PRAGMA(GCC unroll count)
#endif

/// For the body of a loop that has several callers, and would be a call in each of its turns.
#ifndef ROCMFORGE_INLINE
#define ROCMFORGE_INLINE [[gnu::always_inline]]
#endif
