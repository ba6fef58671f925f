// Sparse e2m1 codes: two of four neighbours kept (2:4), or two of four pairs (4:8), and nibbles that say where they were.
#pragma once
#include "decode8.cuh"

namespace mx {

// Packed codes of eight neighbours, zeros where nothing was kept. kept: four codes, the first one lowest. metadata: a nibble
// for each group, the first one lowest: (position of the second kept << 2) | position of the first, ascending. `legal`: whether
// both are; a group whose nibble is not has zeros.
template <bool Pairs>
MX_HD u32 spread_eight(u32 kept, u32 metadata, bool legal[2]) {
  constexpr int groups = Pairs ? 1 : 2, bits = Pairs ? 8 : 4;
  u32 dense = 0;
#pragma unroll
  for (int g = 0; g < groups; ++g) {
    const u32 nibble = metadata >> (4 * g) & 15u, first = nibble & 3u, second = nibble >> 2;
    const u32 item = kept >> (2 * bits * g), mask = (1u << bits) - 1;
    legal[g] = first < second;
    const u32 placed = (item & mask) << (bits * first) | (item >> bits & mask) << (bits * second);
    dense |= legal[g] ? placed << (16 * g) : 0u;
  }
  if (Pairs) legal[1] = legal[0];
  return dense;
}

}  // namespace mx
