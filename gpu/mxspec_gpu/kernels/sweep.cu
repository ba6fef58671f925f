// A function over all float32 patterns, compared in the kernel with the model's complete answer: runs of patterns with one
// code. Each block of threads takes 2**16 patterns, nearly all of which lie in one run.
//
// Compiled with MX_SWEEP: 0 the plain encoder (MX_SCALAR, MX_ROUNDING, MX_OVERFLOW, MX_NAN_POSITIVE, MX_NAN_NEGATIVE),
// 1 the fast encoder (MX_SCALAR, MX_NAN_POSITIVE, MX_NAN_NEGATIVE), 2 the scale byte of a largest magnitude (the
// profile's Rules). MX_WRITE: answers are written as well.
#include "fast_block.cuh"
namespace mx {
#if MX_SWEEP == 2
#include "rules.generated.cuh"
#endif

constexpr u32 kPatterns = 1u << 16, kThreads = 256;

struct Answers {
  u8 code[8];
};

MX_HD u32 answer_plainly(u32 bits) {
#if MX_SWEEP == 2
  return encode_scale<Rules>(Rules::scale_value(float_of(bits), Rules::derive_tensor(1.0f)));
#elif MX_SWEEP == 1
  return encode<MX_SCALAR>(float_of(bits), RNE, SATURATE, MX_NAN_POSITIVE, MX_NAN_NEGATIVE);
#else
  return encode<MX_SCALAR>(float_of(bits), MX_ROUNDING, MX_OVERFLOW, MX_NAN_POSITIVE, MX_NAN_NEGATIVE);
#endif
}

// first: of this launch, a multiple of 2**16. found: number of differences, then the first few patterns.
extern "C" __global__ void __launch_bounds__(kThreads)
sweep(u32 first, const u32* __restrict__ starts, const u8* __restrict__ codes, u32 runs, u64* __restrict__ found, u8* __restrict__ out) {
  const u32 base = first + blockIdx.x * kPatterns;
  u32 low = 0, high = runs;  // the run of the first pattern: the last start at or below it
  while (high - low > 1) {
    const u32 middle = (low + high) / 2;
    if (starts[middle] <= base) low = middle;
    else high = middle;
  }
  u32 last = low;
  while (last + 1 < runs && starts[last + 1] - base < kPatterns) ++last;
  const u32 expected = codes[low];
  u32 different = 0;
#if MX_SWEEP == 1
  const u32 top = (base + kPatterns - 1) & ~kSign;
  const bool fast = top < kInf, clamped = Encode8Clamp<MX_SCALAR>::needed && top >= Encode8Clamp<MX_SCALAR>::from;
#endif
#pragma unroll 1
  for (u32 i = threadIdx.x * 8; i < kPatterns; i += kThreads * 8) {
    u32 lo = 0, hi = 0;
#if MX_SWEEP == 1
    if (fast) {
      float s[8];
#pragma unroll
      for (int j = 0; j < 8; ++j) s[j] = float_of(base + i + j);
      if (clamped) {
#pragma unroll
        for (int j = 0; j < 8; ++j) s[j] = clamp_magnitude(s[j], 6.0f);
      }
      const u32 sign = permute(base, base, 0x7632), signs[4] = {sign, sign, sign, sign};
      const Eight e = encode8<MX_SCALAR>(s, signs);
      lo = e.lo, hi = e.hi;
      if (Format<MX_SCALAR>::bits == 4 && (last != low || MX_WRITE)) {  // nibbles to bytes
        hi = lo >> 16;
        lo &= 0xFFFFu;
        lo = (lo | lo << 8) & 0x00FF00FFu, hi = (hi | hi << 8) & 0x00FF00FFu;
        lo = (lo | lo << 4) & 0x0F0F0F0Fu, hi = (hi | hi << 4) & 0x0F0F0F0Fu;
      } else if (Format<MX_SCALAR>::bits == 4) {
        different += lo != expected * 0x11111111u ? 1u : 0u;
        continue;
      }
    } else
#endif
    {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        lo |= answer_plainly(base + i + j) << (8 * j);
        hi |= answer_plainly(base + i + 4 + j) << (8 * j);
      }
    }
    if (last == low) {
      different += (lo != expected * 0x01010101u ? 1u : 0u) + (hi != expected * 0x01010101u ? 1u : 0u);
    } else {
      u32 run = low;
      for (int j = 0; j < 8; ++j) {
        while (run < last && starts[run + 1] <= base + i + j) ++run;
        const u32 code = (j < 4 ? lo : hi) >> (8 * (j & 3)) & 0xFFu;
        if (code != codes[run]) {
          ++different;
          const u64 place = atomicAdd(found + 1, 1ull);
          if (place < 14) found[2 + place] = (u64)code << 32 | (base + i + j);
        }
      }
    }
#if MX_WRITE
    *reinterpret_cast<uint2*>(out + (u64)(base - first) + i) = make_uint2(lo, hi);
#endif
  }
  if (different) atomicAdd(found, (u64)different);
}
}  // namespace mx
