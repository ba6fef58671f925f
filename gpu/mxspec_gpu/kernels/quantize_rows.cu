// Quantize along the last axis: contiguous rows of whole blocks, 16-byte aligned.
//
// A thread holds MX_VALUES elements: one block, several, or a part whose neighbours lie in the next lanes. It reads 16
// bytes at a time, keeps everything in registers and writes packed codes and scale bytes once.
//
// Compiled with: the profile's Rules, MX_INPUT (0 float32, 1 float16, 2 bfloat16), MX_VALUES (8, 16 or 32), MX_TILED (1:
// scales in 128x4 tiles; 2: the same, and a row has a multiple of four blocks; 3: the same, rows come in 128s and a row is
// a multiple of what a warp takes), MX_STOCHASTIC (random bytes from a
// counter; e2m1 only), MX_THREADS, MX_TURNS (how often a thread does this), MX_LOAD(p) and MX_STORE(p, v) of 16 bytes.
#include "fast_block.cuh"
namespace mx {
#include "rules.generated.cuh"

constexpr int kIn = MX_INPUT, kValues = MX_VALUES, kBlock = Rules::kBlock;
constexpr int kRandom = MX_STOCHASTIC ? RANDOM_COUNTER : NO_RANDOM;
constexpr int kLanes = kBlock > kValues ? kBlock / kValues : 1;    // threads that share a block
constexpr int kBlocks = kValues > kBlock ? kValues / kBlock : 1;   // blocks of a thread
constexpr int kEights = kValues / 8 / kBlocks;                     // groups of eight in a thread's part of a block
constexpr int kWords8 = Raw<kIn>::words8, kLoads = kValues * Raw<kIn>::element_bytes / 16;
constexpr u32 kWarpBlocks = 32 * kBlocks / kLanes;  // blocks of a warp
constexpr int kBits = Format<Rules::kElement>::bits, kOutWords = kValues * kBits / 32;

// The plain way for one block, by one thread.
__device__ __noinline__ u32 quantize_plainly(const void* x, u64 block, Tensor t, u64 seed, u64 first_block, u8* codes) {
  const Lanes<kIn> lanes{x, (i64)(block * kBlock), 1, kBlock};
  const u64 first = (first_block + block) * kBlock;
  auto word = [&](int i) -> u32 {
    if (kRandom == NO_RANDOM) return 0;
    const u64 at = first + i;
    return philox(at >> 4, seed).byte((u32)at & 15);
  };
  return quantize_block<Rules, kRandom>(lanes, word, t, codes);
}

// blocks_per_row, multiplier and shift (a division by it), tiles: for scales in 128x4 tiles. first_block: of this launch
// in the whole tensor, for the counter.
extern "C" __global__ void __launch_bounds__(MX_THREADS)
quantize_rows(const void* __restrict__ x, u8* __restrict__ codes, u8* __restrict__ scales, const float* __restrict__ tensor,
              u32 thread_count, u32 blocks_per_row, u32 multiplier, u32 shift, u32 tiles, u64 seed, u64 first_block,
              u32 tensor_bits) {
  const Tensor t = Rules::derive_tensor(tensor_value<Rules>(tensor, tensor_bits));
#pragma unroll 1
  for (u32 turn = 0; turn < MX_TURNS; ++turn) {
#if MX_TILED == 3
    // The warps of a block of threads take the same columns of rows 32 apart: their scales meet in 16 bytes of a tile.
    // `multiplier` and `shift` divide by the warps of a row.
    const u32 job = blockIdx.x * MX_TURNS + turn, warps_of_row = blocks_per_row / kWarpBlocks;
    const u32 row_group = (u32)(((u64)job * multiplier) >> shift), segment = job - row_group * warps_of_row;
    const u32 tile_row = row_group >> 5, row = tile_row * 128 + (row_group & 31) + (threadIdx.x & ~31u);
    const bool active = job * MX_THREADS < thread_count;
    u32 g = (row * warps_of_row + segment) * 32 + (threadIdx.x & 31);
    if (!active) g = threadIdx.x & 31;
#else
    u32 g = (blockIdx.x * MX_TURNS + turn) * MX_THREADS + threadIdx.x;
    const bool active = g < thread_count;
    if (!active) g = thread_count - 1;
#endif
    const uint4* source = static_cast<const uint4*>(x) + (u64)g * kLoads;
    u32 words[kLoads * 4];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const uint4 v = MX_LOAD(source + i);
      words[4 * i] = v.x, words[4 * i + 1] = v.y, words[4 * i + 2] = v.z, words[4 * i + 3] = v.w;
    }

    u32 out[kOutWords], bytes[kBlocks];
    bool ordinary[kBlocks];
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      const u32* w = words + b * kEights * kWords8;
      u32 held = 0;
#pragma unroll
      for (int i = 0; i < kEights * kWords8; ++i) held = fold_magnitude<kIn>(held, w[i]);
      u32 magnitude = find_magnitude<kIn>(held);
#pragma unroll
      for (int d = 1; d < kLanes; d *= 2) {
        const u32 other = __shfl_xor_sync(0xFFFFFFFFu, magnitude, d);
        magnitude = other > magnitude ? other : magnitude;
      }
      const BlockScale s = find_scale<Rules>(magnitude, t);
      bytes[b] = s.byte;
      ordinary[b] = s.ordinary;
      Random16 r = {{0, 0, 0, 0}};
      Eight codes6[2];
#pragma unroll
      for (int i = 0; i < kEights; ++i) {
        const int at = b * kEights + i;  // group of eight in the thread
        if (kRandom != NO_RANDOM) {
          const u64 group = (first_block * kBlock + (u64)g * kValues) / 8 + at;
          if (at % 2 == 0 || kValues == 8) r = philox(group / 2, seed);
          const bool upper = kValues == 8 ? (group & 1) != 0 : at % 2 != 0;
          const Eight e = encode8_block<Rules, kIn, kRandom>(w + i * kWords8, s, upper ? r.w[2] : r.w[0], upper ? r.w[3] : r.w[1]);
          out[at] = e.lo;
          continue;
        }
        const Eight e = encode8_block<Rules, kIn, kRandom>(w + i * kWords8, s, 0, 0);
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

    const bool first_lane = (g & (kLanes - 1)) == 0;
    const u64 block = (u64)g * kBlocks / kLanes;
    u8* mine = codes + (u64)g * (kOutWords * 4);
    if (kBits == 6) {
      // 24 bytes a thread: a warp's are laid side by side in shared memory and leave in 16-byte pieces.
      __shared__ __align__(16) u32 staged[MX_THREADS * kOutWords];
      u32* place = staged + threadIdx.x * kOutWords;
#pragma unroll
      for (int i = 0; i < kOutWords; i += 2) *reinterpret_cast<uint2*>(place + i) = make_uint2(out[i], out[i + 1]);
      if (active && !ordinary[0]) bytes[0] = quantize_plainly(x, block, t, seed, first_block, reinterpret_cast<u8*>(place));
      __syncwarp();
      const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
      constexpr u32 pieces = 32 * kOutWords / 4;
#if MX_TILED == 3
      const u32 warp_first = active ? g - lane : thread_count;
#else
      const u32 warp_first = (blockIdx.x * MX_TURNS + turn) * MX_THREADS + warp * 32;
#endif
      const u32 live = warp_first >= thread_count ? 0 : thread_count - warp_first < 32 ? thread_count - warp_first : 32;
      const uint4* from = reinterpret_cast<const uint4*>(staged + warp * 32 * kOutWords);
      uint4* to = reinterpret_cast<uint4*>(codes + (u64)warp_first * (kOutWords * 4));
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
          if (!ordinary[b]) bytes[b] = quantize_plainly(x, block + b, t, seed, first_block, mine + b * (kBlock * kBits / 8));
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
        const u32 tile = tile_row * tiles + segment * (kWarpBlocks / 4) + threadIdx.x;
        *reinterpret_cast<uint4*>(scales + ((u64)tile * 512 + (row_group & 31) * 16)) = reinterpret_cast<const uint4*>(scale_bytes)[threadIdx.x];
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
      if (active && (g & (kLanes * 4 / kBlocks - 1)) == 0) {
        const u32 index = (u32)block, row = (u32)(((u64)index * multiplier) >> shift), column = index - row * blocks_per_row;
        *reinterpret_cast<u32*>(scales + tile_offset(row, column, tiles)) = word;
      }
    } else if (active && first_lane) {
      if (MX_TILED) {
#pragma unroll
        for (int b = 0; b < kBlocks; ++b) {
          const u32 index = (u32)block + b, row = (u32)(((u64)index * multiplier) >> shift);
          scales[tile_offset(row, index - row * blocks_per_row, tiles)] = (u8)bytes[b];
        }
      } else if (kBlocks == 2) {
        *reinterpret_cast<u16*>(scales + block) = (u16)(bytes[0] | bytes[kBlocks - 1] << 8);
      } else {
#pragma unroll
        for (int b = 0; b < kBlocks; ++b) scales[block + b] = (u8)bytes[b];
      }
    }
    if (kBits == 6 && MX_TURNS > 1) __syncwarp();
  }
}
}  // namespace mx
