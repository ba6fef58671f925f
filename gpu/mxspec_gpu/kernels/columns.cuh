// Quantize along the first axis of a matrix: blocks lie in columns, and the result is that of the transposed matrix,
// codes[column][row].
//
// A warp takes 32 rows of 64 columns (32 of float32), a thread two of them (one), so reads are whole lines; the codes of
// MX_WARPS warps (one below the other) meet in shared memory and leave as runs of 128 bytes and more a column. Blocks of
// threads go down the rows in groups beside each other.
//
// Compiled with what rules.cuh is compiled with, MX_STOCHASTIC (random bytes from a counter; e2m1 only), MX_LOOSE (0: pairs of columns in words of 4 bytes, 16-bit numbers only; 1:
// columns one by one, from any address, and any number of rows), MX_TILED, MX_WARPS, MX_STEP (whether a thread steps from row
// to row or finds each), MX_GROUP (tiles beside each other that blocks of threads go down together), MX_COLUMN_LOAD(p) of 4
// bytes, MX_THREADS_OF_SM (how many threads of a multiprocessor registers must be enough for).
#pragma once
#include "rules.cuh"

namespace mx {
namespace columns {

constexpr int kBlocks = 32 / kBlock, kOutWords = kBits, kWarps = MX_WARPS, kRows = 32 * kWarps;
constexpr int kRandom = MX_STOCHASTIC ? RANDOM_COUNTER : NO_RANDOM;
constexpr int kOfLane = kIn == FLOAT32 ? 1 : 2, kColumns = 32 * kOfLane, kGroup = MX_GROUP;
// Units that leave at once: 16 bytes, or 8 where a column's bytes may be no multiple of 16.
constexpr int kUnitWords = kBits == 6 || (MX_LOOSE && kBlock == 16) ? 2 : 4, kUnits = kOutWords / kUnitWords, kColumnUnits = kWarps * kUnits;
constexpr int kColumnWords = kBits == 6 ? kWarps * kOutWords + 2 : kWarps * kOutWords;
static_assert(!(kIn == FLOAT32) || MX_LOOSE, "pairs are of 16-bit numbers");

// Blackwell's conversions need more registers at a time, and nothing may spill.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
constexpr int kThreadsOfSm = MX_THREADS_OF_SM * 3 / 4;
#else
constexpr int kThreadsOfSm = MX_THREADS_OF_SM;
#endif
constexpr int kThreads = 32 * kWarps, kBlocksOfSm = kThreadsOfSm / kThreads > 0 ? kThreadsOfSm / kThreads : 1;

static_assert(kBits == 6 || (kColumnUnits & (kColumnUnits - 1)) == 0, "units of a column are permuted by xor");

// rows: of x; padded: up to a whole block. Columns of x, and elements from a row to the next. tiles: in a row of 128x4 tiles.
struct Arguments {
  const void* x;
  u8 *codes, *scales;
  i64 pitch;
  u32 rows, padded, columns, tiles;
  u64 seed;
};

// A thread's column, of two the c-th: neighbours where they come in one word.
__device__ __forceinline__ u32 column_of(u32 lane, u32 c) { return MX_LOOSE ? lane + 32 * c : 2 * lane + c; }

// Place, in words, of a unit of a column; a warp's columns start in different banks.
__device__ __forceinline__ u32 place_of(u32 column, u32 unit) {
  const u32 swizzled = kBits == 6 ? unit : unit ^ (column >> (MX_LOOSE ? 0 : 1) & (kColumnUnits < 8 ? kColumnUnits - 1u : 7u));
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

// The lanes of a whole block; what a block's number of rows costs is a register too many.
struct WholeLanes {
  const void* x;
  i64 first, stride;
  __device__ float operator[](int i) const { return load_element<kIn>(x, first + i * stride); }
};

// The random words of a block whose first element is `first` in the order of the packed output.
struct CounterWords {
  u64 seed, first;
  __device__ u32 operator()(int i) const { return philox((first + i) >> 4, seed).byte((u32)i & 15); }
};
struct NoWords {
  __device__ u32 operator()(int) const { return 0; }
};

template <class L, class W, class O>
__device__ __noinline__ u32 quantize_plainly(L lanes, W words, Tensor t, O codes) {
  return quantize_lanes<kRandom>(lanes, words, t, codes);
}

constexpr int kBlockWords = kOutWords / kBlocks;

// Codes of a block to packed words; `word(i)`: its i-th word, of two 16-bit numbers or one of 32. counter: of the block's first
// sixteen random bytes.
template <class F>
__device__ __forceinline__ BlockScale encode_block(u32 magnitude, const Tensor& t, u32 out[kBlockWords], u64 counter, u64 seed,
                                                   const F& word) {
  constexpr int words8 = Raw<kValue>::words8;
  Random16 r = {{0, 0, 0, 0}};
  const BlockScale s = find_scale<Rules>(magnitude, t);
  Eight held = {0, 0};
#pragma unroll
  for (int i = 0; i < kBlock / 8; ++i) {
    u32 x[words8];
#pragma unroll
    for (int j = 0; j < words8; ++j) x[j] = word(words8 * i + j);
    if (kRandom != NO_RANDOM && i % 2 == 0) r = philox(counter + i / 2, seed);
    const Eight e = encode8_block<Rules, kValue, kRandom>(x, s, r.w[i % 2 * 2], r.w[i % 2 * 2 + 1]);
    if (kBits == 4) out[i] = e.lo;
    if (kBits == 8) out[2 * i] = e.lo, out[2 * i + 1] = e.hi;
    if (kBits == 6 && (i & 1)) {
      const ThreeWords p = join_fp6(pack_fp6(held.lo), pack_fp6(held.hi), pack_fp6(e.lo), pack_fp6(e.hi));
      out[i / 2 * 3] = p.a, out[i / 2 * 3 + 1] = p.b, out[i / 2 * 3 + 2] = p.c;
    }
    held = e;
  }
  return s;
}

// The tile of 32 * MX_WARPS rows and kColumns columns at (row0, column0), by all threads of a block.
__device__ __forceinline__ void quantize_tile(const Arguments& a, const Tensor& t, u32 row0, u32 column0) {
  __shared__ __align__(16) u32 shared[kColumns * kColumnWords];
  __shared__ u8 shared_scales[kColumns * kWarps * kBlocks];
  const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5, my_row = row0 + warp * 32;
  const bool inside = my_row < a.rows && column0 + column_of(lane, 0) < a.columns;
  u32 w[32];
#if MX_LOOSE
  {
    const i64 first = (i64)my_row * a.pitch + column0 + lane;
    const bool second = kOfLane == 2 && inside && column0 + column_of(lane, 1) < a.columns;
    const u32 live = inside ? a.rows - my_row : 0;
    if (kIn == FLOAT32) {
      const u32* source = static_cast<const u32*>(a.x) + first;
#pragma unroll
      for (int i = 0; i < 32; ++i, source += a.pitch) w[i] = (u32)i < live ? __ldg(source) : 0u;
    } else {
      const u16* source = static_cast<const u16*>(a.x) + first;
#pragma unroll
      for (int i = 0; i < 32; ++i, source += a.pitch) {
        const u32 low = (u32)i < live ? __ldg(source) : 0u, high = second && (u32)i < live ? __ldg(source + 32) : 0u;
        w[i] = permute(low, high, 0x5410);
      }
    }
  }
#else
  {
    const u64 step = (u64)a.pitch / 2;
    const u32* source = static_cast<const u32*>(a.x) + (u64)my_row * step + (column0 + 2 * lane) / 2;
#pragma unroll
    for (int i = 0; i < 32; ++i) {
#if MX_STEP
      w[i] = inside ? MX_COLUMN_LOAD(source) : 0u;
      source += step;
#else
      w[i] = inside ? MX_COLUMN_LOAD(source + i * step) : 0u;
#endif
    }
  }
#endif

  u32 held[kBlocks];
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
    held[b] = 0;
#pragma unroll
    for (int i = 0; i < kBlock; ++i) held[b] = fold_magnitude<kIn>(held[b], w[b * kBlock + i]);
  }
  if (inside) {
    // e2m1: both columns at once, since they share words; over powers of two in packed arithmetic, where a word's lanes are
    // scaled by different ones.
    constexpr bool together = kOfLane == 2 && Rules::kElement == E2M1 && !MX_HAS_FP4_CVT && !MX_TRANSFORMED && !MX_STOCHASTIC;
    constexpr bool packed = together && kIn == BFLOAT16 && Rules::kPowerOfTwo;
    // Block by block, so that the words of one are free for what the next one needs.
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      const u32* of_block = w + b * kBlock;
      u32 out[kOfLane][kBlockWords];
      BlockScale s[kOfLane];
      auto magnitude = [&](int c) { return kOfLane == 1 ? held[b] : widen_magnitude<kIn>(c ? held[b] >> 16 : held[b] & 0xFFFFu); };
      if (together) {
#pragma unroll
        for (int c = 0; c < kOfLane; ++c) s[c] = find_scale<Rules>(magnitude(c), t);
        const BlockScale &first = s[0], &second = s[kOfLane - 1];
        const u32 factor = permute(bits_of(first.factor), bits_of(second.factor), 0x7632);
        const u32 limit = permute(bits_of(fmul(reciprocal_of_power(first.factor), 6.0f)),
                                  bits_of(fmul(reciprocal_of_power(second.factor), 6.0f)), 0x7632);
        const bool clamp = first.clamped || second.clamped;
#pragma unroll
        for (int i = 0; i < kBlock / 8; ++i) {
          u32 q[8];
#pragma unroll
          for (int j = 0; j < 8; ++j)
            q[j] = packed ? encode2_e2m1_bf16(of_block[8 * i + j], factor, limit)
                          : encode2_e2m1<Rules, kIn>(of_block[8 * i + j], first.factor, second.factor, clamp);
          const Eight e = gather_two_e2m1(q);
          out[0][i] = e.lo, out[kOfLane - 1][i] = e.hi;
        }
      } else {
#pragma unroll
        for (int c = 0; c < kOfLane; ++c) {
          // The order of the packed output: column by column.
          const u64 counter = ((u64)(column0 + column_of(lane, c)) * a.padded + my_row + b * kBlock) / 16;
#if MX_TRANSFORMED
          u32 values[kBlock / 8 * Raw<kValue>::words8], largest = 0;
#pragma unroll
          for (int i = 0; i < kBlock / 16; ++i) {
            float v[16];
#pragma unroll
            for (int j = 0; j < 16; ++j) v[j] = half_of<kIn>(of_block[16 * i + j], c);
            hadamard16<MX_TRANSFORM>(v);
            pack16<kValue>(v, values + 2 * i * Raw<kValue>::words8);
          }
#pragma unroll
          for (int i = 0; i < kBlock / 8 * Raw<kValue>::words8; ++i) largest = fold_magnitude<kValue>(largest, values[i]);
          s[c] = encode_block(find_magnitude<kValue>(largest), t, out[c], counter, a.seed, [&](int i) { return values[i]; });
#else
          s[c] = encode_block(magnitude(c), t, out[c], counter, a.seed, [&](int i) {
            return kOfLane == 1 ? of_block[i] : permute(of_block[2 * i % kBlock], of_block[(2 * i + 1) % kBlock], c ? 0x7632 : 0x5410);
          });
#endif
        }
      }
#pragma unroll
      for (int c = 0; c < kOfLane; ++c) {
        const u32 my_column = column_of(lane, c);
#pragma unroll
        for (int i = 0; i < kBlockWords; i += kBlockWords < kUnitWords ? kBlockWords : kUnitWords) {
          const u32 at = warp * kOutWords + b * kBlockWords + i;  // word in the column
          u32* to = shared + place_of(my_column, at / kUnitWords) + at % kUnitWords;
          if (kUnitWords == 4 && kBlockWords >= 4) *reinterpret_cast<uint4*>(to) = make_uint4(out[c][i], out[c][i + 1], out[c][i + 2 < kBlockWords ? i + 2 : 0], out[c][i + 3 < kBlockWords ? i + 3 : 0]);
          else *reinterpret_cast<uint2*>(to) = make_uint2(out[c][i], out[c][i + 1]);
        }
        u32 byte = s[c].byte;
        if (!s[c].ordinary && column0 + my_column < a.columns) {
          const u32 row = my_row + b * kBlock;
          const i64 first = (i64)row * a.pitch + column0 + my_column;
#if MX_STOCHASTIC
          const CounterWords words{a.seed, (u64)(column0 + my_column) * a.padded + row};
#else
          const NoWords words;
#endif
          const StagedBytes to{reinterpret_cast<u8*>(shared), my_column, warp * (kOutWords * 4) + b * (kBlockWords * 4)};
          if (!MX_LOOSE || row + kBlock <= a.rows) byte = quantize_plainly(WholeLanes{a.x, first, a.pitch}, words, t, to);
          else byte = quantize_plainly(Lanes<kIn>{a.x, first, a.pitch, (int)(a.rows - row)}, words, t, to);
        }
        shared_scales[my_column * (kWarps * kBlocks) + warp * kBlocks + b] = (u8)byte;
      }
    }
  }
  __syncthreads();
  const u64 column_bytes = (u64)a.padded * kBits / 8, offset = (u64)row0 * kBits / 8;
  for (u32 i = threadIdx.x; i < kColumns * kColumnUnits; i += kThreads) {
    const u32 c = i / kColumnUnits, unit = i % kColumnUnits;
    const u64 at = offset + unit * (4 * kUnitWords);
    if (column0 + c >= a.columns || at >= column_bytes) continue;
    u8* to = a.codes + (column0 + c) * column_bytes + at;
    const u32* from = shared + place_of(c, unit);
    if (kUnitWords == 4) __stcs(reinterpret_cast<uint4*>(to), *reinterpret_cast<const uint4*>(from));
    else __stcs(reinterpret_cast<uint2*>(to), *reinterpret_cast<const uint2*>(from));
  }
  const u32 scale_columns = a.padded / kBlock;
  for (u32 i = threadIdx.x; i < kColumns * kWarps * kBlocks; i += kThreads) {
    const u32 c = i / (kWarps * kBlocks), at = row0 / kBlock + i % (kWarps * kBlocks);
    if (column0 + c >= a.columns || at >= scale_columns) continue;
    a.scales[MX_TILED ? tile_offset(column0 + c, at, a.tiles) : (u64)(column0 + c) * scale_columns + at] = shared_scales[i];
  }
}
}  // namespace columns
}  // namespace mx
