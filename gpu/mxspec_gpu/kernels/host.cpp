// The arithmetic of the kernels, compiled for a host: what tests hold to the model on a machine without a GPU.
//
// Compiled with -ffp-contract=off; MX_RULES lists the generated headers, one namespace each (`rules_0`, `rules_1` ...).
#include "affine.cuh"
#include "decode8.cuh"
#include "exact.cuh"
#include "fast_block.cuh"
#include "records.cuh"
#include "sparse.cuh"
#include "transform.cuh"

namespace mx {
#include "all_rules.generated.cuh"

template <int F>
void encode_all(int input, int rounding, int overflow, u32 positive, u32 negative, i64 n, const void* x, u8* out) {
  for (i64 i = 0; i < n; ++i) {
    const float v = input == FLOAT32 ? load_element<FLOAT32>(x, i) : input == FLOAT16 ? load_element<FLOAT16>(x, i) : load_element<BFLOAT16>(x, i);
    out[i] = (u8)encode<F>(v, rounding, overflow, positive, negative);
  }
}

// float32 bits of the largest magnitude of n words.
template <int In, bool SkipNan>
u32 amax_all(i64 n, const u32* words) {
  u32 held = 0;
  for (i64 i = 0; i < n; ++i) held = fold_magnitude<In, SkipNan>(held, words[i]);
  return find_magnitude<In>(held);
}

// The same of every eight words.
template <int In>
void largest_all(i64 n, const u32* words, u32* out) {
  for (i64 i = 0; i + 8 <= n; i += 8) out[i / 8] = find_largest<In, 8>(words + i);
}

template <int F>
void encode8_all(i64 n, const float* x, u8* out) {
  for (i64 i = 0; i + 8 <= n; i += 8) {
    u32 signs[4];
    for (int j = 0; j < 4; ++j) signs[j] = permute(bits_of(x[i + 2 * j]), bits_of(x[i + 2 * j + 1]), 0x7632);
    float s[8];
    for (int j = 0; j < 8; ++j) {
      const bool clamped = Encode8Clamp<F>::needed && (bits_of(x[i + j]) & ~kSign) >= Encode8Clamp<F>::from;
      s[j] = clamped ? clamp_magnitude(x[i + j], 6.0f) : x[i + j];
    }
    const Eight e = encode8<F>(s, signs);
    for (int j = 0; j < 8; ++j)
      out[i + j] = (u8)(F == E2M1 ? e.lo >> (4 * j) & 15u : (j < 4 ? e.lo : e.hi) >> (8 * (j & 3)) & 255u);
  }
}

template <int Signs>
void hadamard_all(i64 n, const float* x, float* out) {
  for (i64 i = 0; i + 16 <= n; i += 16) {
    float v[16];
    memcpy(v, x + i, sizeof v);
    hadamard16<Signs>(v);
    memcpy(out + i, v, sizeof v);
  }
}

template <int N>
void philox_all(u64 base, u64 seed, i64 n, Random16* out, u8* right) {
  for (i64 i = 0; i + N <= n; i += N) right[i / N] = philox_run<N>(base, (u32)i, seed, out + i);
}

template <int F>
void stochastic_all(int bits, u32 positive, u32 negative, i64 n, const float* x, const u32* random, u8* out) {
  for (i64 i = 0; i < n; ++i) out[i] = (u8)encode_stochastic<F>(x[i], random[i], bits, positive, negative);
}

template <int F>
void decode_all(i64 n, const u8* codes, float* out) {
  for (i64 i = 0; i < n; ++i) out[i] = decode<F>(codes[i]);
}

template <int F>
void decode8_all(i64 n, const u8* packed, float* out) {
  for (i64 i = 0; i + 8 <= n; i += 8) decode8<F>(load_codes8<Format<F>::bits>(packed, (u32)(i / 8)), out + i);
}

// The packed form of n codes, eight at a time, as the kernels pack them.
template <int F>
void pack_all(i64 n, const Eight* in, u8* out) {
  constexpr int bits = Format<F>::bits;
  for (i64 i = 0; i < n; i += 16) {
    const Eight a = in[i / 8], b = in[i / 8 + 1];
    u32 words[4] = {a.lo, bits == 4 ? b.lo : a.hi, b.lo, b.hi};
    if (bits == 6) {
      const ThreeWords p = join_fp6(pack_fp6(a.lo), pack_fp6(a.hi), pack_fp6(b.lo), pack_fp6(b.hi));
      words[0] = p.a, words[1] = p.b, words[2] = p.c;
    }
    memcpy(out + i * bits / 8, words, 2 * bits);
  }
}

// One level of one profile. Mode 0: the plain way; 1: eight at a time where the block is ordinary; returns how many were.
template <class R, class T, int In, int Rand>
i64 quantize_all(int mode, i64 blocks, const void* x, float native, const u32* random, u64 seed, u8* codes, u8* scales) {
  const T t = R::derive_tensor(native);
  constexpr int k = R::kBlock, bytes = Packed<R>::bytes, eights = k / 8, words8 = Raw<In>::words8;
  i64 ordinary = 0;
  for (i64 b = 0; b < blocks; ++b) {
    if (mode == 1) {
      u32 words[eights * words8];
      memcpy(words, static_cast<const u8*>(x) + b * k * Raw<In>::element_bytes, sizeof words);
      const BlockScale s = find_scale<R>(find_largest<In, eights * words8>(words), t);
      if (s.ordinary) {
        Eight e[eights];
        Random16 random[k / 16];
        philox_run<k / 16>(0, (u32)(b * k / 16), seed, random);
        for (int i = 0; i < eights; ++i) {
          const Random16& r = random[i / 2];
          e[i] = encode8_block<R, In, Rand>(words + i * words8, s, r.w[i % 2 * 2], r.w[i % 2 * 2 + 1]);
        }
        pack_all<R::kElement>(k, e, codes + b * bytes);
        write_scale<R::kScale>(scales, b, s.byte);
        ++ordinary;
        continue;
      }
    }
    const Lanes<In> lanes{x, b * k, 1, k};
    auto word = [&](int i) -> u32 {
      if (Rand == NO_RANDOM) return 0;
      const u64 at = (u64)(b * k + i);
      return Rand == RANDOM_COUNTER ? philox(at >> 4, seed).byte((u32)at & 15) : random[at];
    };
    write_scale<R::kScale>(scales, b, quantize_block<R, Rand>(lanes, word, t, codes + b * bytes));
  }
  return ordinary;
}

template <class R, class T, int In>
i64 quantize_random(int mode, int rand, i64 n, const void* x, float native, const u32* random, u64 seed, u8* codes, u8* scales) {
  if (rand == NO_RANDOM) return quantize_all<R, T, In, NO_RANDOM>(mode, n, x, native, random, seed, codes, scales);
  if (rand == RANDOM_WORDS_32) return quantize_all<R, T, In, RANDOM_WORDS_32>(0, n, x, native, random, seed, codes, scales);
  if (rand == RANDOM_WORDS_8) return quantize_all<R, T, In, RANDOM_WORDS_8>(0, n, x, native, random, seed, codes, scales);
  return quantize_all<R, T, In, RANDOM_COUNTER>(R::kElement == E2M1 ? mode : 0, n, x, native, random, seed, codes, scales);
}

template <class R, class T>
i64 quantize_level(int input, int mode, int rand, i64 n, const void* x, float native, const u32* random, u64 seed, u8* codes,
                   u8* scales) {
  if (input == FLOAT32) return quantize_random<R, T, FLOAT32>(mode, rand, n, x, native, random, seed, codes, scales);
  if (input == FLOAT16) return quantize_random<R, T, FLOAT16>(mode, rand, n, x, native, random, seed, codes, scales);
  return quantize_random<R, T, BFLOAT16>(mode, rand, n, x, native, random, seed, codes, scales);
}

template <class R, class T>
void dequantize_level(i64 n, const u8* packed, const u8* scales, float native, float* out) {
  const T t = R::derive_tensor(native);
  for (i64 i = 0; i < n; ++i) out[i] = dequantize_lane<R>(unpack_code<R::kElement>(packed, i), read_scale<R::kScale>(scales, i / R::kBlock), t);
}

template <class R>
void scale_level(i64 n, const float* value, u8* out) {
  for (i64 i = 0; i < n; ++i) write_scale<R::kScale>(out, i, encode_scale<R>(value[i]));
}

template <bool Zero, int Held>
void affine_all(int form, int fused, i64 n, const float* q, const float* s, const float* o, float* out) {
  for (i64 i = 0; i < n; ++i) {
    if (form == WHOLE && fused) out[i] = affine_value<Zero, Held, WHOLE, true>(q[i], s[i], o[i]);
    if (form == WHOLE && !fused) out[i] = affine_value<Zero, Held, WHOLE, false>(q[i], s[i], o[i]);
    if (form == PRODUCTS && fused) out[i] = affine_value<Zero, Held, PRODUCTS, true>(q[i], s[i], o[i]);
    if (form == PRODUCTS && !fused) out[i] = affine_value<Zero, Held, PRODUCTS, false>(q[i], s[i], o[i]);
  }
}

template <int Block>
void records_all(int write, i64 count, u32* codes, u8* scales, u8* records) {
  constexpr int eights = Record<Block>::elements / 8, bytes = Record<Block>::bytes, of_record = Record<Block>::scales;
  for (i64 i = 0; i < count; ++i) {
    if (write) {
      write_record<Block>(codes + i * eights, scales + i * of_record, records + i * bytes);
      continue;
    }
    for (int e = 0; e < eights; ++e) {
      codes[i * eights + e] = read_eight<Block>(reinterpret_cast<const u32*>(records), (u32)(i * bytes), e);
      scales[i * of_record + e / (Block / 8)] = records[i * bytes + find_scale_byte<Block>(e)];
    }
  }
}
}  // namespace mx

using namespace mx;

#define MX_EACH(call)                                              \
  switch (format) {                                                \
    case E2M1: return call<E2M1> MX_WITH;                          \
    case E2M3: return call<E2M3> MX_WITH;                          \
    case E3M2: return call<E3M2> MX_WITH;                          \
    case E4M3: return call<E4M3> MX_WITH;                          \
    case E5M2: return call<E5M2> MX_WITH;                          \
    case INT8: return call<INT8> MX_WITH;                          \
    MX_SCALES(call)                                                \
  }
#define MX_SCALES(call)                    \
  case E8M0: return call<E8M0> MX_WITH;    \
  case UE4M3: return call<UE4M3> MX_WITH;

extern "C" {
void set_rcp_table(const signed char* table) { rcp_table() = table; }

u32 mx_amax(int input, int skip_nan, i64 n, const u32* words) {
  if (input == FLOAT32) return skip_nan ? amax_all<FLOAT32, true>(n, words) : amax_all<FLOAT32, false>(n, words);
  if (input == FLOAT16) return skip_nan ? amax_all<FLOAT16, true>(n, words) : amax_all<FLOAT16, false>(n, words);
  return skip_nan ? amax_all<BFLOAT16, true>(n, words) : amax_all<BFLOAT16, false>(n, words);
}

void mx_largest(int input, i64 n, const u32* words, u32* out) {
  if (input == FLOAT32) return largest_all<FLOAT32>(n, words, out);
  if (input == FLOAT16) return largest_all<FLOAT16>(n, words, out);
  return largest_all<BFLOAT16>(n, words, out);
}

#define MX_WITH (input, rounding, overflow, positive, negative, n, x, out)
void mx_encode(int format, int input, int rounding, int overflow, u32 positive, u32 negative, i64 n, const void* x, u8* out) {
  MX_EACH(encode_all)
}
#undef MX_WITH
#define MX_WITH (bits, positive, negative, n, x, random, out)
void mx_stochastic(int format, int bits, u32 positive, u32 negative, i64 n, const float* x, const u32* random, u8* out) {
  MX_EACH(stochastic_all)
}
#undef MX_WITH
#define MX_WITH (n, codes, out)
void mx_decode(int format, i64 n, const u8* codes, float* out) { MX_EACH(decode_all) }
#undef MX_SCALES
#define MX_SCALES(call)
void mx_decode8(int format, i64 n, const u8* codes, float* out) { MX_EACH(decode8_all) }
#undef MX_WITH
#define MX_WITH (n, x, out)
void mx_encode8(int format, i64 n, const float* x, u8* out) { MX_EACH(encode8_all) }
#undef MX_WITH

i64 mx_quantize(int rules, int input, int mode, int rand, i64 blocks, const void* x, float native, const u32* random, u64 seed,
                u8* codes, u8* scales) {
#define MX_CASE(i)                                                                                                       \
  case i:                                                                                                                \
    return quantize_level<rules_##i::Rules, rules_##i::Tensor>(input, mode, rand, blocks, x, native, random, seed, codes, scales);
  switch (rules) { MX_ALL_RULES }
#undef MX_CASE
  return -1;
}
// The bytes of n counters from `base`, one or two at a time; right: a flag for each time.
void mx_philox(int pairs, u64 base, u64 seed, i64 n, u32* out, u8* right) {
  Random16* bytes = reinterpret_cast<Random16*>(out);
  return pairs ? philox_all<2>(base, seed, n, bytes, right) : philox_all<1>(base, seed, n, bytes, right);
}
// Returns 0, or -1 for signs that are not compiled here.
int mx_hadamard(int signs, i64 n, const float* x, float* out) {
  switch (signs) {
    case 0x0000: hadamard_all<0x0000>(n, x, out); return 0;
    case 0x5A3C: hadamard_all<0x5A3C>(n, x, out); return 0;
    case 0x8001: hadamard_all<0x8001>(n, x, out); return 0;
    case 0xFFFF: hadamard_all<0xFFFF>(n, x, out); return 0;
  }
  return -1;
}
void mx_dequantize(int rules, i64 n, const u8* packed, const u8* scales, float native, float* out) {
#define MX_CASE(i) \
  case i: return dequantize_level<rules_##i::Rules, rules_##i::Tensor>(n, packed, scales, native, out);
  switch (rules) { MX_ALL_RULES }
#undef MX_CASE
}
void mx_scale(int rules, i64 n, const float* value, u8* out) {
#define MX_CASE(i) \
  case i: return scale_level<rules_##i::Rules>(n, value, out);
  switch (rules) { MX_ALL_RULES }
#undef MX_CASE
}
void mx_lowest_bits(i64 n, const double* x, short* out) {
  for (i64 i = 0; i < n; ++i) out[i] = (short)lowest_bit(x[i]);
}
void mx_certain(i64 n, const double* magnitude, const short* unit, u8* out) {
  for (i64 i = 0; i < n; ++i) out[i] = is_certain(magnitude[i], unit[i]);
}
void mx_affine(int zero, int held, int form, int fused, i64 n, const float* q, const float* s, const float* o, float* out) {
#define MX_HELD_CASE(h) \
  case h: return zero ? affine_all<true, h>(form, fused, n, q, s, o, out) : affine_all<false, h>(form, fused, n, q, s, o, out);
  switch (held) { MX_HELD_CASE(FLOAT32) MX_HELD_CASE(FLOAT16) MX_HELD_CASE(BFLOAT16) }
#undef MX_HELD_CASE
}
// codes: a word for each eight; legal: two flags.
void mx_spread(int pairs, i64 n, const u16* kept, const u8* metadata, u32* codes, u8* legal) {
  for (i64 i = 0; i < n; ++i) {
    bool are[2];
    codes[i] = pairs ? spread_eight<true>(kept[i], metadata[i / 2] >> (i % 2 * 4), are) : spread_eight<false>(kept[i], metadata[i], are);
    legal[2 * i] = are[0], legal[2 * i + 1] = are[1];
  }
}
void mx_records(int block, int write, i64 count, u32* codes, u8* scales, u8* records) {
  return block == 32 ? records_all<32>(write, count, codes, scales, records) : records_all<16>(write, count, codes, scales, records);
}
}
