// The few primitives that all arithmetic here is written in, once for the chip and once for a host compiler.
//
// Everything above this file is the same text on both. A float32 operation rounds to nearest even, keeps subnormals and
// is never contracted, whatever flags the compiler was given on the chip; the host needs -ffp-contract=off.
#pragma once

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define MX_HD __host__ __device__ __forceinline__
#else
#define MX_HD inline
#include <cmath>
#include <cstring>
#endif

// A chip with the block-format conversions (compute capability 10.0, 10.3 and 12.0, architecture-specific targets).
#if defined(__CUDA_ARCH_FEAT_SM100_ALL) || defined(__CUDA_ARCH_FEAT_SM103_ALL) || defined(__CUDA_ARCH_FEAT_SM120_ALL)
#define MX_HAS_FP4_CVT 1
#else
#define MX_HAS_FP4_CVT 0
#endif
// e4m3 and e5m2 conversions.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
#define MX_HAS_FP8_CVT 1
#else
#define MX_HAS_FP8_CVT 0
#endif
#if defined(__CUDA_ARCH__)
#define MX_CHIP 1
#else
#define MX_CHIP 0
#endif

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

namespace mx {

constexpr u32 kSign = 0x80000000u;
constexpr u32 kInf = 0x7F800000u;
constexpr u32 kNan = 0x7FC00000u;

MX_HD u32 bits_of(float x) {
#if MX_CHIP
  return __float_as_uint(x);
#else
  u32 b;
  memcpy(&b, &x, 4);
  return b;
#endif
}

MX_HD float float_of(u32 b) {
#if MX_CHIP
  return __uint_as_float(b);
#else
  float x;
  memcpy(&x, &b, 4);
  return x;
#endif
}

// float32 operations, each rounded once.
#if MX_CHIP
MX_HD float fadd(float a, float b) { return __fadd_rn(a, b); }
MX_HD float fsub(float a, float b) { return __fsub_rn(a, b); }
MX_HD float fmul(float a, float b) { return __fmul_rn(a, b); }
MX_HD float fdiv(float a, float b) { return __fdiv_rn(a, b); }
MX_HD float ffma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
MX_HD float frcp(float a) { return __frcp_rn(a); }  // 1 / a, rounded once
MX_HD float rcp_approx_ftz(float a) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a));
  return r;
}
MX_HD float exp2_approx_ftz(float a) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a));
  return r;
}
MX_HD int leading_zeros(u32 x) { return __clz(x); }
#else
MX_HD float fadd(float a, float b) { return a + b; }
MX_HD float fsub(float a, float b) { return a - b; }
MX_HD float fmul(float a, float b) { return a * b; }
MX_HD float fdiv(float a, float b) { return a / b; }
MX_HD float ffma(float a, float b, float c) { return std::fmaf(a, b, c); }
MX_HD float frcp(float a) { return 1.0f / a; }
// The chip's reciprocal by the measured table (2**23 differences in units of the last place); the tests set it.
inline const signed char*& rcp_table() {
  static const signed char* table = nullptr;
  return table;
}
MX_HD float rcp_approx_ftz(float a) {
  const u32 b = bits_of(a), magnitude = b & ~kSign;
  if (magnitude > kInf) return float_of(kNan);
  const float flushed = magnitude < 0x00800000u ? float_of(b & kSign) : a;
  float r = 1.0f / flushed;
  if (magnitude >= 0x00800000u && magnitude < kInf) r = float_of(bits_of(r) + rcp_table()[b & 0x7FFFFFu]);
  return (bits_of(r) & ~kSign) < 0x00800000u ? float_of(bits_of(r) & kSign) : r;
}
// Not the chip's bits, but as near.
MX_HD float exp2_approx_ftz(float a) {
  const float r = (float)std::exp2((double)a);
  return bits_of(r) < 0x00800000u ? 0.0f : r;
}
MX_HD int leading_zeros(u32 x) { return x ? __builtin_clz(x) : 32; }
#endif

MX_HD bool is_nan(float x) { return (bits_of(x) & ~kSign) > kInf; }
MX_HD bool is_inf(float x) { return (bits_of(x) & ~kSign) == kInf; }
MX_HD float fabs_(float x) { return float_of(bits_of(x) & ~kSign); }
// Smaller and larger operand: NaN if either is (minimum, maximum), or the other one (fmin_number, fmax_number). Profiles
// bound by constants that are not zero, so which of +0 and -0 comes out does not arise.
MX_HD float minimum(float a, float b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  float r;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
#endif
  if (is_nan(a)) return a;
  return is_nan(b) || b < a ? b : a;
}
MX_HD float maximum(float a, float b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
#endif
  if (is_nan(a)) return a;
  return is_nan(b) || a < b ? b : a;
}
MX_HD float fmin_number(float a, float b) { return is_nan(a) || b < a ? b : a; }
MX_HD float fmax_number(float a, float b) { return is_nan(a) || a < b ? b : a; }

// Byte permutation: byte i of the result is byte (selector >> 4 i) & 7 of b:a; no sign replication is used here.
MX_HD u32 permute(u32 a, u32 b, u32 selector) {
#if MX_CHIP
  return __byte_perm(a, b, selector);
#else
  const u64 both = (u64)b << 32 | a;
  u32 r = 0;
  for (int i = 0; i < 4; ++i) r |= (u32)(both >> (8 * (selector >> (4 * i) & 7)) & 0xFF) << (8 * i);
  return r;
#endif
}

// Two unsigned 16-bit lanes.
MX_HD u32 max_u16x2(u32 a, u32 b) {
#if MX_CHIP
  return __vmaxu2(a, b);
#else
  const u32 lo = (a & 0xFFFF) > (b & 0xFFFF) ? a & 0xFFFF : b & 0xFFFF;
  const u32 hi = a >> 16 > b >> 16 ? a >> 16 : b >> 16;
  return hi << 16 | lo;
#endif
}
MX_HD u32 min_u16x2(u32 a, u32 b) {
#if MX_CHIP
  return __vminu2(a, b);
#else
  const u32 lo = (a & 0xFFFF) < (b & 0xFFFF) ? a & 0xFFFF : b & 0xFFFF;
  const u32 hi = a >> 16 < b >> 16 ? a >> 16 : b >> 16;
  return hi << 16 | lo;
#endif
}

// The magnitude of x, at most `limit`, with x's sign. x is no NaN.
MX_HD float clamp_magnitude(float x, float limit) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 860
  float r;
  asm("min.xorsign.abs.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(limit));
  return r;
#else
  const u32 a = bits_of(x) & ~kSign, l = bits_of(limit);
  return float_of((a < l ? a : l) | (bits_of(x) & kSign));
#endif
}

// bfloat16 from float32, nearest even. NaN is 7FFF on the chip and 7FC0 on the host: callers' NaN are not compared by payload.
MX_HD u32 round_bf16(float x) {
  const u32 b = bits_of(x);
  if ((b & ~kSign) > kInf) return 0x7FC0u;
  return (b + 0x7FFFu + (b >> 16 & 1)) >> 16;
}
// Two float32 rounded to two bfloat16, the first in the low half.
MX_HD u32 pack_bf16x2(float lo, float hi) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  u32 r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
  return r;
#else
  return round_bf16(hi) << 16 | round_bf16(lo);
#endif
}

// float16 from float32: nearest even, or toward zero.
MX_HD u32 round_f16(float x, bool toward_zero) {
  const u32 b = bits_of(x), sign = b >> 16 & 0x8000u, a = b & ~kSign;
  if (a > kInf) return 0x7E00u;
  if (a == kInf) return sign | 0x7C00u;
  const int e = (int)(a >> 23) < 113 ? 113 : (int)(a >> 23);  // 113 is the exponent field of 2**-14
  const u32 significand = (a & 0x7FFFFFu) | (a >> 23 ? 0x800000u : 0u);
  const int shift = 13 + e - ((a >> 23) ? (int)(a >> 23) : 1);
  u32 q = shift > 24 ? 0u : significand >> shift;
  if (!toward_zero) {
    const u64 rest = shift > 40 ? 0 : (u64)significand & ((1ull << shift) - 1), half = shift > 40 ? 1 : 1ull << (shift - 1);
    if (rest > half || (rest == half && (q & 1))) ++q;
  }
  const u32 code = ((u32)(e - 113) << 10) + q;
  if (code >= 0x7C00u) return sign | (toward_zero ? 0x7BFFu : 0x7C00u);
  return sign | code;
}
MX_HD u32 pack_f16x2(float lo, float hi) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  u32 r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
  return r;
#else
  return round_f16(hi, false) << 16 | round_f16(lo, false);
#endif
}
MX_HD u32 pack_f16x2_toward_zero(float lo, float hi) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  u32 r;
  asm("cvt.rz.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
  return r;
#else
  return round_f16(hi, true) << 16 | round_f16(lo, true);
#endif
}

// float32 from the 16 bits of a bfloat16 or float16; exact. NaN keep their sign, but for `from_f16_number`, which is one
// instruction: it is for numbers and for what asks no NaN for its sign.
MX_HD float from_bf16(u32 b) { return float_of(b << 16); }
MX_HD float from_f16_number(u32 b) {
#if MX_CHIP
  float r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"((u16)b));
  return r;
#else
  const u32 sign = (b & 0x8000u) << 16, a = b & 0x7FFFu;
  if (a > 0x7C00u) return float_of(kNan);
  if (a == 0x7C00u) return float_of(sign | kInf);
  if (a >= 0x400u) return float_of(sign | ((a + 0x1C000u) << 13));
  return float_of(sign | bits_of((float)a * 0x1p-24f));
#endif
}
MX_HD float from_f16(u32 b) { return float_of(bits_of(from_f16_number(b)) | (b & 0x8000u) << 16); }

// Two bfloat16 lanes: product, and fused multiply-add, rounded once to nearest even, subnormals kept.
#if !MX_CHIP
inline u32 round_bf16_from_double(double x) {  // x is exact
  float f = (float)x;  // round to odd, then to bfloat16
  if ((double)f != x && std::isfinite(f)) {
    u32 b = bits_of(f);
    if (std::fabs((double)f) > std::fabs(x)) --b;
    f = float_of(b | 1);
  }
  return round_bf16(f);
}
#endif
MX_HD u32 mul_bf16x2(u32 a, u32 b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  u32 r;
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
#elif MX_CHIP
  u32 r;  // before 9.0 a product is a fused multiply-add with -0
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(0x80008000u));
  return r;
#else
  const u32 lo = round_bf16_from_double((double)from_bf16(a & 0xFFFF) * from_bf16(b & 0xFFFF));
  const u32 hi = round_bf16_from_double((double)from_bf16(a >> 16) * from_bf16(b >> 16));
  return hi << 16 | lo;
#endif
}
MX_HD u32 fma_bf16x2(u32 a, u32 b, u32 c) {
#if MX_CHIP
  u32 r;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
  return r;
#else
  // Exponents here lie within a few binades, so the double is exact.
  const u32 lo = round_bf16_from_double((double)from_bf16(a & 0xFFFF) * from_bf16(b & 0xFFFF) + from_bf16(c & 0xFFFF));
  const u32 hi = round_bf16_from_double((double)from_bf16(a >> 16) * from_bf16(b >> 16) + from_bf16(c >> 16));
  return hi << 16 | lo;
#endif
}
// The magnitudes of both lanes of x, each at most the lane of `limit`; no NaN.
MX_HD u32 min_magnitude_bf16x2(u32 x, u32 limit) {
#if MX_CHIP
  u32 r;
  asm("{.reg .b32 t; abs.bf16x2 t, %1; min.bf16x2 %0, t, %2;}" : "=r"(r) : "r"(x), "r"(limit));
  return r;
#else
  return min_u16x2(x & 0x7FFF7FFFu, limit);
#endif
}

// The larger magnitude of each lane. Skip: NaN count for nothing, and `a` holds none; otherwise NaN (as 7FFF) if either is.
#if !MX_CHIP
template <bool Skip>
inline u32 max_magnitude_16x2(u32 a, u32 b, u32 infinity) {
  u32 low = b & 0x7FFFu, high = b >> 16 & 0x7FFFu;
  if (Skip && low > infinity) low = 0;
  if (Skip && high > infinity) high = 0;
  return max_u16x2(a & 0x7FFF7FFFu, high << 16 | low);
}
#endif
template <bool Skip>
MX_HD u32 max_magnitude_bf16x2(u32 a, u32 b) {
#if MX_CHIP
  u32 r;
  if (Skip) asm("{.reg .b32 t; abs.bf16x2 t, %2; max.bf16x2 %0, %1, t;}" : "=r"(r) : "r"(a), "r"(b));
  else asm("{.reg .b32 s, t; abs.bf16x2 s, %1; abs.bf16x2 t, %2; max.NaN.bf16x2 %0, s, t;}" : "=r"(r) : "r"(a), "r"(b));
  return r;
#else
  return max_magnitude_16x2<Skip>(a, b, 0x7F80u);
#endif
}
// The larger magnitude of each lane, NaN if either is, and a sign that says nothing: signs need not be cleared first. Before 8.6
// they are.
MX_HD u32 max_magnitude_any_sign_bf16x2(u32 a, u32 b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 860
  u32 r;
  asm("max.NaN.xorsign.abs.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
#elif MX_CHIP
  return max_magnitude_bf16x2<false>(a, b);
#else
  return max_magnitude_bf16x2<false>(a, b) | ((a ^ b) & 0x80008000u);
#endif
}
template <bool Skip>
MX_HD u32 max_magnitude_f16x2(u32 a, u32 b) {
#if MX_CHIP
  u32 r;
  if (Skip) asm("{.reg .b32 t; abs.f16x2 t, %2; max.f16x2 %0, %1, t;}" : "=r"(r) : "r"(a), "r"(b));
  else asm("{.reg .b32 s, t; abs.f16x2 s, %1; abs.f16x2 t, %2; max.NaN.f16x2 %0, s, t;}" : "=r"(r) : "r"(a), "r"(b));
  return r;
#else
  return max_magnitude_16x2<Skip>(a, b, 0x7C00u);
#endif
}

// Two float32 to two fp8 codes, nearest even, saturating; the first in the low byte. Without the instruction (host, chips
// before 8.9) element.cuh's integer encoder takes their place.
#if MX_HAS_FP8_CVT
MX_HD u32 cvt_e4m3x2(float lo, float hi) {
  u16 r;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(r) : "f"(hi), "f"(lo));
  return r;
}
MX_HD u32 cvt_e5m2x2(float lo, float hi) {
  u16 r;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(r) : "f"(hi), "f"(lo));
  return r;
}
// Two e4m3 codes to two float16; exact.
MX_HD u32 e4m3x2_to_f16x2(u32 codes) {
  u32 r;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"((u16)codes));
  return r;
}
#endif

#if MX_CHIP
// 4 bytes, of a row whose next 256 bytes are read soon.
MX_HD u32 load_word_ahead(const u32* p) {
  u32 v;
  asm("ld.global.nc.L2::256B.b32 %0, [%1];" : "=r"(v) : "l"(p));
  return v;
}
// 16 bytes read once: the line's other half comes along, and leaves the caches first.
MX_HD uint4 load_ahead(const uint4* p) {
  uint4 v;
  asm("ld.global.nc.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
  return v;
}
#endif

}  // namespace mx
