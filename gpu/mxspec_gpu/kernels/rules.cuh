// The generated rules of the profile that a kernel is compiled for, and what follows from them and the input's type.
//
// Compiled with: the profile's Rules (rules.generated.cuh), MX_INPUT (0 float32, 1 float16, 2 bfloat16).
#pragma once
#include "fast_block.cuh"

namespace mx {
#include "rules.generated.cuh"

constexpr int kIn = MX_INPUT, kBlock = Rules::kBlock, kBits = Format<Rules::kElement>::bits, kItem = Raw<kIn>::element_bytes;
}  // namespace mx
