// Quantize along the last axis, whose elements follow one another: whole blocks in registers.
//
// A thread holds MX_VALUES elements: one block, several, or a part whose neighbours lie in the next lanes. It reads 16
// bytes at a time, keeps everything in registers and writes packed codes and scales once.
//
// Compiled with: the profile's Rules, MX_INPUT (0 float32, 1 float16, 2 bfloat16), MX_SOURCE (0: contiguous rows of whole
// blocks, 16-byte aligned; 1: the same, rows a pitch of whole 16 bytes apart; 2: rows that start anywhere and end within a
// block), MX_FUSED (1: of the 2 K columns the first half are gates, the second ups, and SiLU(gate) * up is quantized; MX_SOURCE 1), MX_VALUES (8, 16 or 32), MX_TILED (1: scales in 128x4 tiles; 2: the same, and a row has a multiple of four blocks;
// 3: the same, rows come in 128s and a row is a multiple of what a warp takes; 4: scales column by column), MX_STOCHASTIC (random bytes from a counter;
// e2m1 only), MX_THREADS, MX_TURNS (how often a thread does this), MX_LOAD(p) and MX_STORE(p, v) of 16 bytes.
#pragma once
#include "rules.cuh"

#ifndef MX_FUSED
#define MX_FUSED 0
#endif

namespace mx {
namespace rows {

constexpr int kValues = MX_VALUES;
constexpr int kRandom = MX_STOCHASTIC ? RANDOM_COUNTER : NO_RANDOM;
constexpr int kLanes = kBlock > kValues ? kBlock / kValues : 1;    // threads that share a block
constexpr int kBlocks = kValues > kBlock ? kValues / kBlock : 1;   // blocks of a thread
constexpr int kEights = kValues / 8 / kBlocks;                     // groups of eight in a thread's part of a block
constexpr int kWords8 = Raw<kValue>::words8, kLoads = kValues * Raw<kIn>::element_bytes / 16;
constexpr u32 kWarpBlocks = 32 * kBlocks / kLanes;  // blocks of a warp
constexpr int kOutWords = kValues * kBits / 32;
constexpr int kCounters = kValues > 16 ? kValues / 16 : 1;       // of a thread's random bytes

// What a launch is given. blocks_per_row, multiplier and shift (a division by it, or with MX_TILED 3 by the warps of a row),
// tiles, or with MX_TILED 4 from a column to the next: of the scales. first_block: of this launch in the whole tensor, for the counter. Only with MX_SOURCE: pitch, from a
// row to the next, and columns of x, in elements. Only with MX_SOURCE 2: the bytes from x to the first and past the last that
// may be read.
struct Arguments {
  const void* x;
  u8 *codes, *scales;
  u32 blocks_per_row, multiplier, shift, tiles;
  u64 seed, first_block;
  i64 pitch;
  u64 columns;
  i64 low, high;
};

// The plain way for one block, by one thread. logical: its first element in the order of the packed output.
template <class L>
__device__ __noinline__ u32 quantize_plainly(L lanes, Tensor t, u64 seed, u64 logical, u8* codes) {
  auto word = [&](int i) -> u32 {
    if (kRandom == NO_RANDOM) return 0;
    const u64 at = logical + i;
    return philox(at >> 4, seed).byte((u32)at & 15);
  };
  return quantize_lanes<kRandom>(lanes, word, t, codes);
}

#if MX_SOURCE == 2
// 16 bytes of which only those from `low` to `high` may be read; zeros elsewhere.
__device__ __noinline__ uint4 load_edge(u64 at, u64 low, u64 high) {
  u32 w[4] = {0, 0, 0, 0};
  for (u32 i = 0; i < 16; i += kItem) {
    if (at + i < low || at + i >= high) continue;
    if (kItem == 4) w[i / 4] = *reinterpret_cast<const u32*>(at + i);
    else w[i / 4] |= (u32)*reinterpret_cast<const u16*>(at + i) << (8 * (i & 2));
  }
  return make_uint4(w[0], w[1], w[2], w[3]);
}

// Words of kValues elements from any address, zeros from element `live` on: aligned loads, shifted into place.
__device__ __forceinline__ void load_loose(u32 words[kLoads * 4], u64 at, u32 live, u64 low, u64 high) {
  const u32 over = (u32)at & 15u;
  const u64 first = at - over;
  u32 raw[kLoads * 4 + 4];
  if (first >= low && first + 16 * (kLoads + 1) <= high) {
#pragma unroll
    for (int i = 0; i <= kLoads; ++i) {
      const uint4 v = MX_LOAD(reinterpret_cast<const uint4*>(first) + i);
      raw[4 * i] = v.x, raw[4 * i + 1] = v.y, raw[4 * i + 2] = v.z, raw[4 * i + 3] = v.w;
    }
  } else {
#pragma unroll
    for (int i = 0; i <= kLoads; ++i) {
      const uint4 v = load_edge(first + 16 * i, low, high);
      raw[4 * i] = v.x, raw[4 * i + 1] = v.y, raw[4 * i + 2] = v.z, raw[4 * i + 3] = v.w;
    }
  }
#pragma unroll
  for (int i = 0; i < kLoads * 4 + 2; ++i) raw[i] = over & 8u ? raw[i + 2] : raw[i];
#pragma unroll
  for (int i = 0; i < kLoads * 4 + 1; ++i) raw[i] = over & 4u ? raw[i + 1] : raw[i];
#pragma unroll
  for (int i = 0; i < kLoads * 4; ++i) words[i] = kItem == 2 && (over & 2u) ? permute(raw[i], raw[i + 1], 0x5432) : raw[i];
  if (live < (u32)kValues) {
#pragma unroll
    for (int i = 0; i < kLoads * 4; ++i) {
      if (kItem == 4) words[i] = (u32)i < live ? words[i] : 0u;
      else words[i] = 2u * i + 1 < live ? words[i] : 2u * i < live ? words[i] & 0xFFFFu : 0u;
    }
  }
}
#endif

// One turn of a block of threads: threads start to start + MX_THREADS - 1 of the launch, of which those below `limit` count.
__device__ __forceinline__ void quantize_turn(const Arguments& a, const Tensor& t, u32 start, u32 limit) {
#if MX_TILED == 3
  // The warps of a block of threads take the same columns of rows 32 apart: their scales meet in 16 bytes of a tile.
  const u32 job = start / MX_THREADS, warps_of_row = a.blocks_per_row / kWarpBlocks;
  const u32 row_group = (u32)(((u64)job * a.multiplier) >> a.shift), segment = job - row_group * warps_of_row;
  const u32 tile_row = row_group >> 5, row = tile_row * 128 + (row_group & 31) + (threadIdx.x & ~31u);
  const bool active = start < limit;
  u32 g = (row * warps_of_row + segment) * 32 + (threadIdx.x & 31);
  if (!active) g = threadIdx.x & 31;
  const u32 block_row = active ? row : 0u, block_column = (active ? segment * kWarpBlocks : 0u) + (threadIdx.x & 31) * kBlocks / kLanes;
#else
  u32 g = start + threadIdx.x;
  const bool active = g < limit;
  if (!active) g = limit - 1;
  const u32 index = (u32)((u64)g * kBlocks / kLanes), block_row = (u32)(((u64)index * a.multiplier) >> a.shift);
  const u32 block_column = index - block_row * a.blocks_per_row;
#endif
  const bool first_lane = (g & (kLanes - 1)) == 0;
  const u64 block = (u64)g * kBlocks / kLanes;
  u32 words[kLoads * 4];
#if MX_SOURCE
  const i64 row_first = (i64)block_row * a.pitch;
  const u64 column = (u64)block_column * kBlock + (g & (kLanes - 1)) * kValues;
  auto plainly = [&](int b, u8* to) -> u32 {
    const u64 at = (u64)(block_column + b) * kBlock, left = a.columns - at;
    const u64 logical = (a.first_block + block + b) * kBlock;
#if MX_FUSED
    return quantize_plainly(FusedLanes<kIn>{static_cast<const u16*>(a.x), row_first + (i64)at, (i64)a.columns}, t, a.seed, logical, to);
#else
    return quantize_plainly(Lanes<kIn>{a.x, row_first + (i64)at, 1, left < kBlock ? (int)left : kBlock}, t, a.seed, logical, to);
#endif
  };
#else
  auto plainly = [&](int b, u8* to) -> u32 {
    const u64 logical = (a.first_block + block + b) * kBlock;
    return quantize_plainly(Lanes<kIn>{a.x, (i64)((block + b) * kBlock), 1, kBlock}, t, a.seed, logical, to);
  };
#endif
#if MX_SOURCE == 2
  const u64 base = reinterpret_cast<u64>(a.x);
  const u64 left = a.columns > column ? a.columns - column : 0;
  load_loose(words, base + (u64)((row_first + (i64)column) * kItem), left < kValues ? (u32)left : (u32)kValues,
             base + (u64)a.low, base + (u64)a.high);
#else
#if MX_SOURCE == 1
  const uint4* source = reinterpret_cast<const uint4*>(static_cast<const u8*>(a.x) + (row_first + (i64)column) * kItem);
#else
  const uint4* source = static_cast<const uint4*>(a.x) + (u64)g * kLoads;
#endif
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    const uint4 v = MX_LOAD(source + i);
    words[4 * i] = v.x, words[4 * i + 1] = v.y, words[4 * i + 2] = v.z, words[4 * i + 3] = v.w;
  }
#endif
#if MX_FUSED
  static_assert(MX_SOURCE == 1 && kIn != FLOAT32 && !MX_TRANSFORMED, "halves of rows of 16-bit numbers");
  const uint4* ups = reinterpret_cast<const uint4*>(reinterpret_cast<const u8*>(source) + a.columns * kItem);
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    const uint4 v = MX_LOAD(ups + i);
    const u32 up[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int j = 0; j < 4; ++j) words[4 * i + j] = silu_mul<kIn>(words[4 * i + j], up[j]);
  }
#endif

  // Where the upper word of the counters changes within a launch, at a multiple of 2**36 elements, what is behind it goes the
  // plain way. Launches begin at a multiple of a thread's blocks.
  Random16 random[kCounters];
  bool counted = true;
  if (kRandom != NO_RANDOM)
    counted = philox_run<kCounters>(a.first_block * (kBlock / 16), (u32)((u64)g * kValues / 16), a.seed, random);
#if MX_TRANSFORMED
  static_assert(kValues >= 16, "a thread has whole groups of the transform");
  u32 values[kValues / 8 * kWords8];
#pragma unroll
  for (int i = 0; i < kValues / 16; ++i) {
    float v[16];
#pragma unroll
    for (int j = 0; j < 16; ++j) v[j] = half_of<kIn>(words[8 * i + j / 2], j & 1);
    hadamard16<MX_TRANSFORM>(v);
    pack16<kValue>(v, values + 2 * i * kWords8);
  }
#else
  const u32* values = words;
#endif
  u32 out[kOutWords], bytes[kBlocks];
  bool ordinary[kBlocks];
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
    const u32* w = values + b * kEights * kWords8;
    u32 magnitude = find_largest<kValue, kEights * kWords8>(w);
#pragma unroll
    for (int d = 1; d < kLanes; d *= 2) {
      const u32 other = __shfl_xor_sync(0xFFFFFFFFu, magnitude, d);
      magnitude = other > magnitude ? other : magnitude;
    }
    const BlockScale s = find_scale<Rules>(magnitude, t);
    bytes[b] = s.byte;
    ordinary[b] = s.ordinary && counted;
    Eight codes6[2];
#pragma unroll
    for (int i = 0; i < kEights; ++i) {
      const int at = b * kEights + i;  // group of eight in the thread
      if (kRandom != NO_RANDOM) {
        const Random16& r = random[at / 2];
        const bool upper = kValues == 8 ? (g & 1) != 0 : at % 2 != 0;
        const Eight e = encode8_block<Rules, kValue, kRandom>(w + i * kWords8, s, upper ? r.w[2] : r.w[0], upper ? r.w[3] : r.w[1]);
        out[at] = e.lo;
        continue;
      }
      const Eight e = encode8_block<Rules, kValue, kRandom>(w + i * kWords8, s, 0, 0);
      if (kBits == 4) out[at] = e.lo;
      if (kBits == 8) out[2 * at] = e.lo, out[2 * at + 1] = e.hi;
      if (kBits == 6) {
        codes6[i & 1] = e;
        if (i & 1) {
          const ThreeWords p = join_fp6(pack_fp6(codes6[0].lo), pack_fp6(codes6[0].hi), pack_fp6(e.lo), pack_fp6(e.hi));
          out[at / 2 * 3] = p.a, out[at / 2 * 3 + 1] = p.b, out[at / 2 * 3 + 2] = p.c;
        }
      }
    }
  }

  u8* mine = a.codes + (u64)g * (kOutWords * 4);
  if (kBits == 6) {
    // 24 bytes a thread: a warp's are laid side by side in shared memory and leave in 16-byte pieces.
    __shared__ __align__(16) u32 staged[MX_THREADS * kOutWords];
    u32* place = staged + threadIdx.x * kOutWords;
#pragma unroll
    for (int i = 0; i < kOutWords; i += 2) *reinterpret_cast<uint2*>(place + i) = make_uint2(out[i], out[i + 1]);
    if (active && !ordinary[0]) bytes[0] = plainly(0, reinterpret_cast<u8*>(place));
    __syncwarp();
    const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    constexpr u32 pieces = 32 * kOutWords / 4;
#if MX_TILED == 3
    const u32 warp_first = active ? g - lane : limit;
#else
    const u32 warp_first = start + warp * 32;
#endif
    const u32 live = warp_first >= limit ? 0 : limit - warp_first < 32 ? limit - warp_first : 32;
    const uint4* from = reinterpret_cast<const uint4*>(staged + warp * 32 * kOutWords);
    uint4* to = reinterpret_cast<uint4*>(a.codes + (u64)warp_first * (kOutWords * 4));
    if (live == 32) {
#pragma unroll
      for (u32 i = lane; i < pieces; i += 32) MX_STORE(to + i, from[i]);
    } else {
      const uint2* from2 = reinterpret_cast<const uint2*>(from);
      for (u32 i = lane; i < live * kOutWords / 2; i += 32) reinterpret_cast<uint2*>(to)[i] = from2[i];
    }
  } else if (active) {
    bool all = true;
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) all &= ordinary[b];
    if (all || first_lane) {
#pragma unroll
      for (int i = 0; i < kOutWords; i += 4) {
        if (kOutWords % 4 == 0) MX_STORE(reinterpret_cast<uint4*>(mine) + i / 4, make_uint4(out[i], out[i + 1], out[i + 2], out[i + 3]));
        if (kOutWords == 2) MX_STORE(reinterpret_cast<uint2*>(mine), make_uint2(out[0], out[1]));
        if (kOutWords == 1) MX_STORE(reinterpret_cast<u32*>(mine), out[0]);
      }
    }
    if (!all && first_lane) {
#pragma unroll
      for (int b = 0; b < kBlocks; ++b)
        if (!ordinary[b]) bytes[b] = plainly(b, mine + b * (kBlock * kBits / 8));
    }
  }
  if (MX_TILED == 3) {
#if MX_TILED == 3
    static_assert(MX_THREADS == 128, "four warps, 32 rows apart");
    __shared__ __align__(16) u8 scale_bytes[kWarpBlocks * 4];
    const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    if (first_lane) {
#pragma unroll
      for (int b = 0; b < kBlocks; ++b) {
        const u32 at = lane * kBlocks / kLanes + b;  // block in the warp
        scale_bytes[(at >> 2) * 16 + warp * 4 + (at & 3)] = (u8)bytes[b];
      }
    }
    __syncthreads();
    if (active && threadIdx.x < kWarpBlocks / 4) {
      const u32 tile = tile_row * a.tiles + segment * (kWarpBlocks / 4) + threadIdx.x;
      *reinterpret_cast<uint4*>(a.scales + ((u64)tile * 512 + (row_group & 31) * 16)) = reinterpret_cast<const uint4*>(scale_bytes)[threadIdx.x];
    }
    if (MX_TURNS > 1) __syncthreads();
#endif
  } else if (MX_TILED == 2) {
    // Four neighbouring blocks of a row are four neighbouring bytes of a tile: threads gather them into one word.
    u32 word = kBlocks == 2 ? bytes[0] | bytes[kBlocks - 1] << 8 : bytes[0];
#pragma unroll
    for (int d = kLanes; d < kLanes * 4 / kBlocks; d *= 2) {
      const u32 next = __shfl_down_sync(0xFFFFFFFFu, word, d);
      word |= next << (8 * kBlocks * d / kLanes);
    }
    if (active && (g & (kLanes * 4 / kBlocks - 1)) == 0)
      *reinterpret_cast<u32*>(a.scales + tile_offset(block_row, block_column, a.tiles)) = word;
  } else if (active && first_lane) {
    if (MX_TILED == 4) {
      static_assert(MX_TILED != 4 || kBlocks == 1, "a block of a thread");
      write_scale<Rules::kScale>(a.scales, (u64)block_column * a.tiles + block_row, bytes[0]);
    } else if (MX_TILED) {
#pragma unroll
      for (int b = 0; b < kBlocks; ++b) {
        const u32 at = (u32)block + b, row = b && MX_SOURCE == 0 ? (u32)(((u64)at * a.multiplier) >> a.shift) : block_row;
        a.scales[tile_offset(row, at - row * a.blocks_per_row, a.tiles)] = (u8)bytes[b];
      }
    } else if (kBlocks == 2) {
      *reinterpret_cast<u16*>(a.scales + block) = (u16)(bytes[0] | bytes[kBlocks - 1] << 8);
    } else {
#pragma unroll
      for (int b = 0; b < kBlocks; ++b) write_scale<Rules::kScale>(a.scales, block + b, bytes[b]);
    }
  }
  if (kBits == 6 && MX_TURNS > 1) __syncwarp();
}
}  // namespace rows
}  // namespace mx
