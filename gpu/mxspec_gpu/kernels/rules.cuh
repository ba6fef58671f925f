// The generated rules of the profile that a kernel is compiled for, and what follows from them and the input's type.
//
// Compiled with: the profile's Rules (rules.generated.cuh), MX_INPUT (0 float32, 1 float16, 2 bfloat16); MX_TRANSFORM, the
// signs of a random Hadamard transform of the 16-bit input (or nothing), and then MX_VALUE, the type of what it gives.
#pragma once
#include "fused.cuh"

#ifdef MX_TRANSFORM
#define MX_TRANSFORMED 1
#else
#define MX_TRANSFORMED 0
#define MX_TRANSFORM 0
#define MX_VALUE MX_INPUT
#endif

namespace mx {
#include "rules.generated.cuh"

constexpr int kIn = MX_INPUT, kBlock = Rules::kBlock, kBits = Format<Rules::kElement>::bits, kItem = Raw<kIn>::element_bytes;
// The type of the values that are quantized.
constexpr int kValue = MX_VALUE;
static_assert(!MX_TRANSFORMED || kIn != FLOAT32, "the transform takes 16-bit numbers");

// The plain way for a block whose elements are `lanes` of x.
template <int Rand, class L, class W, class O>
MX_HD u32 quantize_lanes(const L& lanes, const W& word, const Tensor& t, O codes) {
  if (MX_TRANSFORMED) return quantize_block<Rules, Rand>(TransformedLanes<kIn, kValue, MX_TRANSFORM, L>{lanes}, word, t, codes);
  return quantize_block<Rules, Rand>(lanes, word, t, codes);
}
}  // namespace mx
