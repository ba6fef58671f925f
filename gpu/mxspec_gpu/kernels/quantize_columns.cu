// Quantize along the first axis of a matrix: blocks lie in columns, and the result is that of the transposed matrix,
// codes[column][row]. With MX_BOTH the same pass also quantizes along the last axis.
//
// 16-bit input. A warp takes 32 rows of 64 columns, a thread two neighbouring columns, so reads are whole lines; the
// codes of MX_WARPS warps (one below the other) meet in shared memory and leave as runs of 128 bytes and more a column.
//
// Compiled with: the profile's Rules, MX_INPUT (1, 2), MX_TILED, MX_WARPS, MX_BOTH,
// MX_THREADS_OF_SM (how many threads of a multiprocessor registers must be enough for).
#include "fast_block.cuh"
namespace mx {
#include "rules.generated.cuh"

constexpr int kIn = MX_INPUT, kBlock = Rules::kBlock, kBits = Format<Rules::kElement>::bits;
constexpr int kBlocks = 32 / kBlock, kOutWords = kBits, kWarps = MX_WARPS, kRows = 32 * kWarps, kColumns = 64;
// Units that leave at once: 16 bytes, or 8 where a column's bytes are no multiple of 16.
constexpr int kUnitWords = kBits == 6 ? 2 : 4, kUnits = kOutWords / kUnitWords, kColumnUnits = kWarps * kUnits;
constexpr int kColumnWords = kBits == 6 ? kWarps * kOutWords + 2 : kWarps * kOutWords;
constexpr int kStagedWords = kColumns * kColumnWords, kRawWords = MX_BOTH ? kRows * kColumns / 2 : 0;

// Blackwell's conversions need more registers at a time, and nothing may spill.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
constexpr int kThreadsOfSm = MX_THREADS_OF_SM * 3 / 4;
#else
constexpr int kThreadsOfSm = MX_THREADS_OF_SM;
#endif

static_assert(kBits == 6 || (kColumnUnits & (kColumnUnits - 1)) == 0, "units of a column are permuted by xor");

// Place, in words, of a unit of a column; neighbouring column pairs start in different banks.
__device__ __forceinline__ u32 place_of(u32 column, u32 unit) {
  const u32 swizzled = kBits == 6 ? unit : unit ^ (column >> 1 & (kColumnUnits < 8 ? kColumnUnits - 1u : 7u));
  return column * kColumnWords + swizzled * kUnitWords;
}

// Takes a block's bytes to their places in shared memory.
struct StagedBytes {
  u8* staged;
  u32 column, byte;
  __device__ StagedBytes& operator*() { return *this; }
  __device__ StagedBytes operator++(int) {
    const StagedBytes old = *this;
    ++byte;
    return old;
  }
  __device__ void operator=(u8 value) {
    staged[4 * place_of(column, byte / (4 * kUnitWords)) + byte % (4 * kUnitWords)] = value;
  }
};

template <class O>
__device__ __noinline__ u32 quantize_plainly(const void* x, i64 first, i64 stride, Tensor t, O codes) {
  const Lanes<kIn> lanes{x, first, stride, kBlock};
  return quantize_block<Rules, NO_RANDOM>(lanes, [](int) { return 0u; }, t, codes);
}

// Codes of 32 elements (words of pairs) to packed words; `plainly(b)` redoes block b where it is not ordinary.
template <class F>
__device__ __forceinline__ void encode32(const u32 pairs[16], const u32 magnitudes[kBlocks], const Tensor& t, u32 out[kOutWords],
                                         u32 bytes[kBlocks], bool ordinary[kBlocks], const F& pair) {
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
    const BlockScale s = find_scale<Rules>(magnitudes[b], t);
    bytes[b] = s.byte;
    ordinary[b] = s.ordinary;
    Eight held = {0, 0};
#pragma unroll
    for (int i = 0; i < kBlock / 8; ++i) {
      u32 x[4];
      const int at = b * (kBlock / 8) + i;
#pragma unroll
      for (int j = 0; j < 4; ++j) x[j] = pair(4 * at + j);
      const Eight e = encode8_block<Rules, kIn, NO_RANDOM>(x, s, 0, 0);
      if (kBits == 4) out[at] = e.lo;
      if (kBits == 8) out[2 * at] = e.lo, out[2 * at + 1] = e.hi;
      if (kBits == 6 && (i & 1)) {
        const ThreeWords p = join_fp6(pack_fp6(held.lo), pack_fp6(held.hi), pack_fp6(e.lo), pack_fp6(e.hi));
        out[at / 2 * 3] = p.a, out[at / 2 * 3 + 1] = p.b, out[at / 2 * 3 + 2] = p.c;
      }
      held = e;
    }
  }
}

// x: rows of `pitch` words (pairs of elements); rows a multiple of 32, columns even (of 32 with MX_BOTH). codes, scales:
// of the transposed matrix; row_codes, row_scales: of the matrix itself. tiles, row_tiles: tiles in a row of 128x4 tiles.
extern "C" __global__ void __launch_bounds__(32 * kWarps, kThreadsOfSm / (32 * kWarps))
quantize_columns(const u32* __restrict__ x, u64 pitch, u32 rows, u32 columns, u8* __restrict__ codes, u8* __restrict__ scales,
                 const float* __restrict__ tensor, u32 tiles, u8* __restrict__ row_codes, u8* __restrict__ row_scales, u32 row_tiles,
                 u32 tensor_bits) {
  __shared__ __align__(16) u32 shared[kStagedWords > kRawWords ? kStagedWords : kRawWords];
  __shared__ u8 shared_scales[kColumns * kWarps * kBlocks];
  const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const u32 column0 = blockIdx.x * kColumns, row0 = blockIdx.y * kRows, my_row = row0 + warp * 32, column = column0 + 2 * lane;
  const bool inside = my_row < rows && column < columns;
  const Tensor t = Rules::derive_tensor(tensor_value<Rules>(tensor, tensor_bits));
  u32 w[32];
  const u32* source = x + (u64)my_row * pitch + column / 2;
#pragma unroll
  for (int i = 0; i < 32; ++i) w[i] = inside ? __ldcs(source + i * pitch) : 0u;

#if MX_BOTH
  // The tile as it is, 16-byte pieces of a row permuted by the row's number.
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    const u32 row = warp * 32 + i;
    shared[row * 32 + ((lane / 4 ^ (row & 7)) * 4 + lane % 4)] = w[i];
  }
  __syncthreads();
  for (u32 job = threadIdx.x; job < kRows * 2; job += 32 * kWarps) {
    const u32 row = job / 2, half = job % 2;  // 32 columns of one row
    u32 pairs[16];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint4 v = *reinterpret_cast<const uint4*>(shared + row * 32 + ((half * 4 + i) ^ (row & 7)) * 4);
      pairs[4 * i] = v.x, pairs[4 * i + 1] = v.y, pairs[4 * i + 2] = v.z, pairs[4 * i + 3] = v.w;
    }
    if (row0 + row >= rows || column0 + half * 32 >= columns) continue;
    u32 magnitudes[kBlocks], out[kOutWords], bytes[kBlocks];
    bool ordinary[kBlocks];
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      u32 held = 0;
#pragma unroll
      for (int i = 0; i < kBlock / 2; ++i) held = fold_magnitude<kIn>(held, pairs[b * (kBlock / 2) + i]);
      magnitudes[b] = find_magnitude<kIn>(held);
    }
    encode32(pairs, magnitudes, t, out, bytes, ordinary, [&](int i) { return pairs[i]; });
    const u64 in_row = (column0 + half * 32) / 32;
    u8* to = row_codes + ((u64)(row0 + row) * (columns / 32) + in_row) * (kOutWords * 4);
#pragma unroll
    for (int i = 0; i < kOutWords; i += kUnitWords) {
      if (kUnitWords == 4) *reinterpret_cast<uint4*>(to + 4 * i) = make_uint4(out[i], out[i + 1], out[i + 2], out[i + 3]);
      else *reinterpret_cast<uint2*>(to + 4 * i) = make_uint2(out[i], out[i + 1]);
    }
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      if (!ordinary[b])
        bytes[b] = quantize_plainly<u8*>(x, (i64)((u64)(row0 + row) * pitch * 2 + column0 + half * 32 + b * kBlock), 1, t,
                                         to + b * (kBlock * kBits / 8));
      const u32 c = (u32)in_row * kBlocks + b;
      row_scales[MX_TILED ? tile_offset(row0 + row, c, row_tiles) : (u64)(row0 + row) * (columns / kBlock) + c] = (u8)bytes[b];
    }
  }
  __syncthreads();
#endif

  u32 held[kBlocks];
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
    held[b] = 0;
#pragma unroll
    for (int i = 0; i < kBlock; ++i) held[b] = fold_magnitude<kIn>(held[b], w[b * kBlock + i]);
  }
  if (inside) {
    // Both columns at once where packed arithmetic does it: a word's lanes are scaled by different powers of two.
    constexpr bool together = kIn == BFLOAT16 && Rules::kElement == E2M1 && Rules::kPowerOfTwo && kBlocks == 1 && !MX_HAS_FP4_CVT;
    u32 pair_out[2][kOutWords], pair_bytes[2];
    bool pair_ordinary[2];
    if (together) {
      const BlockScale s[2] = {find_scale<Rules>(widen_magnitude<kIn>(held[0] & 0xFFFFu), t),
                               find_scale<Rules>(widen_magnitude<kIn>(held[0] >> 16), t)};
      const u32 factor = permute(bits_of(s[0].factor), bits_of(s[1].factor), 0x7632);
      const u32 limit = permute(bits_of(fmul(reciprocal_of_power(s[0].factor), 6.0f)),
                                bits_of(fmul(reciprocal_of_power(s[1].factor), 6.0f)), 0x7632);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        u32 q[8];
#pragma unroll
        for (int j = 0; j < 8; ++j) q[j] = encode2_e2m1_bf16(w[8 * i + j], factor, limit);
        const Eight e = gather_two_e2m1(q);
        pair_out[0][i] = e.lo, pair_out[1][i] = e.hi;
      }
#pragma unroll
      for (int c = 0; c < 2; ++c) pair_bytes[c] = s[c].byte, pair_ordinary[c] = s[c].ordinary;
    }
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      u32 magnitudes[kBlocks], out[kOutWords], bytes[kBlocks];
      bool ordinary[kBlocks];
      if (together) {
#pragma unroll
        for (int i = 0; i < kOutWords; ++i) out[i] = pair_out[c][i];
        bytes[0] = pair_bytes[c], ordinary[0] = pair_ordinary[c];
      } else {
#pragma unroll
        for (int b = 0; b < kBlocks; ++b) magnitudes[b] = widen_magnitude<kIn>(c ? held[b] >> 16 : held[b] & 0xFFFFu);
        encode32(w, magnitudes, t, out, bytes, ordinary,
                 [&](int i) { return permute(w[2 * i], w[2 * i + 1], c ? 0x7632 : 0x5410); });
      }
      const u32 my_column = 2 * lane + c;
#pragma unroll
      for (int i = 0; i < kUnits; ++i) {
        u32* to = shared + place_of(my_column, warp * kUnits + i);
        if (kUnitWords == 4) *reinterpret_cast<uint4*>(to) = make_uint4(out[4 * i], out[4 * i + 1], out[4 * i + 2], out[4 * i + 3]);
        else *reinterpret_cast<uint2*>(to) = make_uint2(out[2 * i], out[2 * i + 1]);
      }
#pragma unroll
      for (int b = 0; b < kBlocks; ++b) {
        if (!ordinary[b])
          bytes[b] = quantize_plainly<StagedBytes>(
              x, (i64)((u64)(my_row + b * kBlock) * pitch * 2 + column + c), (i64)pitch * 2, t,
              StagedBytes{reinterpret_cast<u8*>(shared), my_column, warp * (kOutWords * 4) + b * (kBlock * kBits / 8)});
        shared_scales[my_column * (kWarps * kBlocks) + warp * kBlocks + b] = (u8)bytes[b];
      }
    }
  }
  __syncthreads();
  const u64 column_bytes = (u64)rows * kBits / 8, offset = (u64)row0 * kBits / 8;
  for (u32 i = threadIdx.x; i < kColumns * kColumnUnits; i += 32 * kWarps) {
    const u32 c = i / kColumnUnits, unit = i % kColumnUnits;
    const u64 at = offset + unit * (4 * kUnitWords);
    if (column0 + c >= columns || at >= column_bytes) continue;
    u8* to = codes + (column0 + c) * column_bytes + at;
    const u32* from = shared + place_of(c, unit);
    if (kUnitWords == 4) __stcs(reinterpret_cast<uint4*>(to), *reinterpret_cast<const uint4*>(from));
    else __stcs(reinterpret_cast<uint2*>(to), *reinterpret_cast<const uint2*>(from));
  }
  const u32 scale_columns = rows / kBlock;
  for (u32 i = threadIdx.x; i < kColumns * kWarps * kBlocks; i += 32 * kWarps) {
    const u32 c = i / (kWarps * kBlocks), at = row0 / kBlock + i % (kWarps * kBlocks);
    if (column0 + c >= columns || at >= scale_columns) continue;
    scales[MX_TILED ? tile_offset(column0 + c, at, tiles) : (u64)(column0 + c) * scale_columns + at] = shared_scales[i];
  }
}
}  // namespace mx
