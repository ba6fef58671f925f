// One block after the profile, element by element: the plain way. It takes any block (NaN, Inf, ragged, strided), and is
// what the fast kernels fall back on and are compared with.
#pragma once
#include "philox.cuh"
#include "scale.cuh"

namespace mx {

enum Input { FLOAT32, FLOAT16, BFLOAT16 };
enum Random { NO_RANDOM, RANDOM_WORDS_32, RANDOM_WORDS_8, RANDOM_COUNTER };

template <int In>
MX_HD float load_element(const void* x, i64 i) {
  if (In == FLOAT32) return static_cast<const float*>(x)[i];
  const u32 b = static_cast<const u16*>(x)[i];
  return In == FLOAT16 ? from_f16(b) : from_bf16(b);
}

// The lanes of one block: `count` elements of x, `stride` apart, then zeros.
template <int In>
struct Lanes {
  const void* x;
  i64 first, stride;
  int count;
  MX_HD float operator[](int i) const { return i < count ? load_element<In>(x, first + i * stride) : 0.0f; }
};

// mxspec.blocks.find_amax
template <class R, class L>
MX_HD float find_amax(const L& lanes) {
  u32 largest = 0, any_nan = 0, all_nan = 1, odd_nan = 1;
#pragma unroll 1
  for (int i = 0; i < R::kBlock; ++i) {
    const u32 a = bits_of(lanes[i]) & ~kSign;
    const bool nan = a > kInf;
    any_nan |= nan;
    all_nan &= nan;
    if (i & 1) odd_nan &= nan;
    if (!nan && a > largest) largest = a;
  }
  const bool lost = R::kAmaxNan == 0 ? any_nan : R::kAmaxNan == 1 ? false : R::kAmaxNan == 2 ? all_nan : odd_nan;
  return float_of(lost ? kNan : largest);
}

template <class R>
MX_HD u32 code_of_nan(float x, float sf) {
  const u32 sign = is_nan(x) ? bits_of(x) >> 31 : is_nan(sf) ? 0u : (u32)R::kInvalidSign;
  return sign ? R::kNanNegative : R::kNanPositive;
}

// The code of one element; random words are ignored where Rand is NO_RANDOM.
template <class R, int Rand, class T>
MX_HD u32 encode_lane(float x, float sf, float amax, u32 random, const T& t) {
  if (R::kUnderNanScale >= 0 && is_nan(sf)) return (u32)R::kUnderNanScale;
  const float s = R::scaled(x, sf, amax, t);
  if (is_nan(s)) return code_of_nan<R>(x, sf);
  if (Rand == NO_RANDOM) return encode<R::kElement>(s, RNE, R::kOverflow, 0, 0);
  return encode_stochastic<R::kElement>(s, random, Rand == RANDOM_WORDS_32 ? 32 : 8, 0, 0);
}

// Bytes of a packed block.
template <class R>
struct Packed {
  static constexpr int bits = Format<R::kElement>::bits, bytes = R::kBlock * bits / 8;
};

// Random words: one for each element of x, in the order of the logical tensor; `word(i)` is lane i's.
// codes: a pointer, or what else takes bytes by `*codes++ =`. Returns the scale; writes the packed codes.
template <class R, int Rand, class L, class W, class T, class O>
MX_HD u32 quantize_block(const L& lanes, const W& word, const T& t, O codes) {
  const float amax = find_amax<R>(lanes);
  const u32 byte = encode_scale<R>(R::scale_value(amax, t));
  const float sf = decode_scale<R::kScale>(byte);
  u32 filled = 0, held = 0;
#pragma unroll 1
  for (int i = 0; i < R::kBlock; ++i) {
    held |= encode_lane<R, Rand>(lanes[i], sf, amax, word(i), t) << filled;
    for (filled += Packed<R>::bits; filled >= 8; filled -= 8, held >>= 8) *codes++ = (u8)held;
  }
  return byte;
}

// Code i of a packed run of codes.
template <int F>
MX_HD u32 unpack_code(const u8* codes, u64 i) {
  constexpr int bits = Format<F>::bits;
  if (bits == 8) return codes[i];
  const u64 at = i * bits;
  const u32 low = codes[at >> 3], shift = (u32)(at & 7);
  const u32 both = shift + bits > 8 ? low | (u32)codes[(at >> 3) + 1] << 8 : low;
  return both >> shift & ((1u << bits) - 1u);
}

#if MX_CHIP
// Code i of one code a byte, without bits beyond the format's width; the least such place goes to first_wide (or null).
template <int F>
__device__ __forceinline__ u32 cut_code(const u8* codes, u64 i, u64* first_wide) {
  const u32 code = codes[i];
  if (first_wide && code >> Format<F>::bits) atomicMin(first_wide, i);
  return code & ((1u << Format<F>::bits) - 1u);
}
#endif

// Scale i of an array, whatever holds one.
template <int S>
MX_HD u32 read_scale(const u8* scales, u64 i) { return reinterpret_cast<const typename Stored<S>::Word*>(scales)[i]; }
template <int S>
MX_HD void write_scale(u8* scales, u64 i, u32 scale) {
  reinterpret_cast<typename Stored<S>::Word*>(scales)[i] = (typename Stored<S>::Word)scale;
}

// The value of one stored element.
template <class R, class T>
MX_HD float dequantize_lane(u32 code, u32 scale, const T& t) {
  return R::value(decode<R::kElement>(code), decode_scale<R::kScale>(scale), t);
}

// The tensor scale of a call: read from the GPU's memory, or the kernel's own parameter where no address was given.
template <class R>
MX_HD float tensor_value(const float* tensor, u32 bits) {
  if (!R::kTwoLevel) return 1.0f;
  return tensor ? *tensor : float_of(bits);
}

// Byte offset of the scale of (row, column) in NVIDIA's tiles of 128 rows x 4 columns; tiles: tiles in a row of tiles.
MX_HD u64 tile_offset(u64 row, u32 column, u32 tiles) {
  return ((row >> 7) * tiles + (column >> 2)) * 512 + (row & 31) * 16 + (row >> 5 & 3) * 4 + (column & 3);
}

}  // namespace mx
