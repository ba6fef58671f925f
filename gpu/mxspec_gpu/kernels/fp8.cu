// Products of FP8 codes in groups of 128 columns on Hopper: y = sum over the groups of scale_a * scale_b * (the sum of 128 products).
//
// A group's sum is wgmma's, four instructions of 32 columns each; it goes to float32 by one fused multiply-add with the product of both
// scales, rounded to float32. Groups follow one another from the first to the last, so an output depends on its own row and column alone.
//
// Both operands are brought as they lie, by the copy engine, for which one thread asks. The warpgroups multiply, each 64 or twice 64 rows of
// a tile. With two parts the next 64 rows begin before the sums of the ones before are moved; with one the tensor cores work for the other
// warpgroup meanwhile. What a stage needs besides (its barrier, its scales) is waited for while the products of the one before are made.
// Three warps bring the scales of four groups at a time: loads by the warpgroups themselves kept the tensor cores waiting. Two blocks of a
// cluster have tiles beside each other; each brings half of a's rows for both. Blocks stay, and take one tile after the other, in bands that
// share rows of a and b in the L2 cache.
//
// Compiled with: MX_GROUPS (warpgroups that multiply: 1 or 2), MX_WAVES (64 rows of each: 1 or 2), MX_COLUMNS (rows of b of a tile: 16 to
// 128), MX_STAGES, MX_CLUSTER (1 or 2), MX_PARTS (1 or 2), MX_SCALE, MX_OUTPUT.
#include "hopper.cuh"
#include "wgmma.generated.cuh"

namespace mx {

constexpr int kDepth = 128;  // columns of a stage, and of a group
constexpr int kRows = 64 * MX_GROUPS * MX_WAVES, kThreads = 128 * (MX_GROUPS + 1), kSums = MX_COLUMNS / 2;
constexpr int kBytesA = kRows * kDepth, kBytesB = MX_COLUMNS * kDepth, kPartA = kBytesA / MX_CLUSTER;
constexpr u32 kScales = kRows + 2, kHelpers = 96;  // of a group: of rows of a, of a block of b, and one unused; threads that bring them
constexpr u32 kChunk = 4, kChunks = 3;             // groups whose scales are brought at once; how many of those there is memory for
constexpr u32 kBand = 2048 / kRows;  // tiles that one column of tiles goes down

// What the driver encodes for the copy engine.
struct alignas(64) TensorMap {
  u64 words[16];
};

struct Stages {
  u8 a[MX_STAGES][kBytesA];
  u8 b[MX_STAGES][kBytesB];
  float scales[kChunks][kChunk][kScales];
  u64 full[MX_STAGES], empty[MX_STAGES], scales_full[kChunks], scales_empty[kChunks];
};

constexpr u32 kScaleSize = MX_SCALE == FLOAT32 ? 4 : 1;
__device__ __forceinline__ float scale_of(u32 byte) { return float_of(byte == 0 ? 0x00400000u : byte == 0xFF ? kNan : byte << 23); }
__device__ __forceinline__ float load_scale(const u8* at) {
  return MX_SCALE == FLOAT32 ? __ldg(reinterpret_cast<const float*>(at)) : scale_of(__ldg(at));
}
__device__ __forceinline__ void load_whole(float (&to)[kChunk], const u8* at) {
  if (MX_SCALE == FLOAT32) {
    const float4 v = __ldg(reinterpret_cast<const float4*>(at));
    to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
  } else {
    const u32 v = __ldg(reinterpret_cast<const u32*>(at));
#pragma unroll
    for (u32 g = 0; g < kChunk; ++g) to[g] = scale_of(v >> 8 * g & 0xFF);
  }
}

// The products of one group and 64 rows of a warpgroup, and the scales of a thread's two rows.
struct Part {
  float sums[kSums], scales[2], scale_b;
  u32 slot;
};

template <u32 Value>
struct Count {
  static constexpr u32 value = Value;
};
struct Tile {
  u32 row, column;
};
__device__ __forceinline__ Tile find_tile(u32 i, u32 tall, u32 wide, u32 rank) {
  const u32 first = i / (kBand * wide) * kBand, height = min(kBand, tall - first), within = i - first * wide;
  return {(first + within % height) * kRows, (within / height * MX_CLUSTER + rank) * MX_COLUMNS};
}

// A loop that the compiler does not see: threads cannot part in it, so what is the same in all of them stays in uniform registers.
__device__ __forceinline__ void await(u64* barrier, u32 parity) {
  asm volatile("{.reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @p bra done; bra again; done: }"
               ::"r"(shared_address(barrier)), "r"(parity) : "memory");
}
__device__ __forceinline__ void arrive_at(u64* barrier, u32 rank) {
  asm volatile("{.reg .b32 t; mapa.shared::cluster.u32 t, %0, %1; mbarrier.arrive.shared::cluster.b64 _, [t];}"
               ::"r"(shared_address(barrier)), "r"(rank) : "memory");
}
__device__ __forceinline__ void copy_box(u8* to, const TensorMap& map, u32 column, u32 row, u64* full) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
               ::"r"(shared_address(to)), "l"(&map), "r"(column), "r"(row), "r"(shared_address(full)) : "memory");
}
// To the same place of both blocks; each waits at its own barrier.
__device__ __forceinline__ void copy_box_to_both(u8* to, const TensorMap& map, u32 column, u32 row, u64* full) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;"
               ::"r"(shared_address(to)), "l"(&map), "r"(column), "r"(row), "r"(shared_address(full)), "h"((u16)3) : "memory");
}

// Words of four blocks of eight columns, of which lane t of four has columns 2 t and 2 t + 1: afterwards lane t has all of block t.
__device__ __forceinline__ void transpose_words(u32 (&w)[4], u32 t) {
#pragma unroll
  for (u32 mask = 1; mask < 4; mask *= 2) {
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      if (i & mask) continue;
      const bool upper = t & mask;
      const u32 given = __shfl_xor_sync(0xFFFFFFFFu, upper ? w[i] : w[i | mask], mask);
      if (upper) w[i] = given;
      else w[i | mask] = given;
    }
  }
}

// The rows g and g + 8 of a warp's 16; lane t of four has columns 2 t and 2 t + 1 of each eight.
__device__ __forceinline__ void store_sums(const float (&sums)[kSums], void* y, u32 row, u32 column, u32 m, u32 n, bool aligned) {
  const u32 t = threadIdx.x % 4;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const bool live = row + 8 * r < m;
    const u64 start = (u64)(row + 8 * r) * n;
    if (MX_OUTPUT != FLOAT32 && MX_COLUMNS % 32 == 0 && aligned) {
#pragma unroll
      for (int i = 0; i < kSums; i += 16) {
        u32 w[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) w[j] = pack_bf16x2(sums[i + 4 * j + 2 * r], sums[i + 4 * j + 2 * r + 1]);
        transpose_words(w, t);
        const u32 at = column + i * 2 + t * 8;
        if (live && at < n) *reinterpret_cast<uint4*>(static_cast<u16*>(y) + start + at) = make_uint4(w[0], w[1], w[2], w[3]);
      }
    } else {
#pragma unroll
      for (int i = 0; i < kSums; i += 4) {
        const u32 at = column + i * 2 + t * 2;
        const float low = sums[i + 2 * r], high = sums[i + 2 * r + 1];
        if (!live || at >= n) continue;
        if (aligned && MX_OUTPUT == FLOAT32) *reinterpret_cast<float2*>(static_cast<float*>(y) + start + at) = make_float2(low, high);
        else if (aligned) *reinterpret_cast<u32*>(static_cast<u16*>(y) + start + at) = pack_bf16x2(low, high);
        else {
          store_output<MX_OUTPUT>(y, start + at, low);
          if (at + 1 < n) store_output<MX_OUTPUT>(y, start + at + 1, high);
        }
      }
    }
  }
}

// bytes: of a stage as it is copied; of a few rows of a no more come, and those behind them in shared memory are anything.
// row_a to group_b: bytes from a scale to that of the next row or block, and to that of the next group. whole: scales of four groups are one
// piece, at a multiple of its size. aligned: n is a multiple of eight, and y begins at one of 16 bytes.
extern "C" __global__ void __cluster_dims__(MX_CLUSTER, 1, 1) __launch_bounds__(kThreads, 1)
multiply_groups(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, const u8* scales_a, const u8* scales_b, void* y,
                u32 m, u32 n, u32 k, u64 row_a, u64 group_a, u64 row_b, u64 group_b, u32 bytes, u32 aligned, u32 whole) {
  extern __shared__ __align__(1024) u8 shared_memory[];
  auto& memory = *reinterpret_cast<Stages*>(shared_memory);
  const u32 rank = MX_CLUSTER > 1 ? rank_in_cluster() : 0, groups = (k + kDepth - 1) / kDepth;
  const u32 tall = (m + kRows - 1) / kRows, wide = (n + MX_COLUMNS * MX_CLUSTER - 1) / (MX_COLUMNS * MX_CLUSTER);
  const u32 first = blockIdx.x / MX_CLUSTER, step = gridDim.x / MX_CLUSTER;
  if (threadIdx.x == 0) {
#pragma unroll
    for (int i = 0; i < MX_STAGES; ++i) init_barrier(&memory.full[i], 1), init_barrier(&memory.empty[i], 4 * MX_GROUPS * MX_CLUSTER);
    for (u32 i = 0; i < kChunks; ++i) init_barrier(&memory.scales_full[i], kHelpers / 32), init_barrier(&memory.scales_empty[i], 4 * MX_GROUPS);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  if (MX_CLUSTER > 1) meet_cluster();
  else __syncthreads();
  u32 slot = 0;
  if (threadIdx.x >= 128 * MX_GROUPS) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 56;");
    if (threadIdx.x >= 128 * MX_GROUPS + 32) {
      // The scales of rows of the tile, then that of the block of b in which it has columns.
      constexpr u32 kEach = kRows / kHelpers + 1;
      const u32 number = threadIdx.x - (128 * MX_GROUPS + 32);
      u32 parity = 1;
#pragma unroll 1
      for (u32 i = first; i < tall * wide; i += step) {
        const Tile tile = find_tile(i, tall, wide, rank);
#pragma unroll 1
        for (u32 group = 0; group < groups; group += kChunk) {
          // All loads first: one after the other they would take longer than the products.
          float found[kEach][kChunk];
          const u8* at[kEach];
#pragma unroll
          for (u32 e = 0; e < kEach; ++e) {
            const u32 row = min(tile.row + number + kHelpers * e, m - 1), block = min(tile.column, n - 1) / 128;
            at[e] = number + kHelpers * e < kRows ? scales_a + (row * row_a + group * group_a) : scales_b + (block * row_b + group * group_b);
          }
          if (whole) {
#pragma unroll
            for (u32 e = 0; e < kEach; ++e) load_whole(found[e], at[e]);
          } else {
#pragma unroll
            for (u32 g = 0; g < kChunk; ++g)
#pragma unroll
              for (u32 e = 0; e < kEach; ++e) {
                found[e][g] = load_scale(at[e]);
                if (group + g + 1 < groups) at[e] += number + kHelpers * e < kRows ? group_a : group_b;
              }
          }
          await(&memory.scales_empty[slot], parity);
#pragma unroll
          for (u32 e = 0; e < kEach; ++e)
#pragma unroll
            for (u32 g = 0; g < kChunk; ++g)
              if (number + kHelpers * e < kScales) memory.scales[slot][g][number + kHelpers * e] = found[e][g];
          __syncwarp();
          if (threadIdx.x % 32 == 0) arrive(&memory.scales_full[slot]);
          if (++slot == kChunks) slot = 0, parity ^= 1;
        }
      }
    } else if (threadIdx.x == 128 * MX_GROUPS) {
      asm volatile("prefetch.tensormap [%0]; prefetch.tensormap [%1];" ::"l"(&a), "l"(&b) : "memory");
      u32 parity = 1;
#pragma unroll 1
      for (u32 i = first; i < tall * wide; i += step) {
        const Tile tile = find_tile(i, tall, wide, rank);
#pragma unroll 1
        for (u32 group = 0; group < groups; ++group) {
          u64* const full = &memory.full[slot];
          await(&memory.empty[slot], parity);
          asm volatile("{.reg .b64 t; mbarrier.arrive.expect_tx.shared::cta.b64 t, [%0], %1;}" ::"r"(shared_address(full)), "r"(bytes) : "memory");
          u8* const part = memory.a[slot] + rank * kPartA;
          if (MX_CLUSTER > 1) copy_box_to_both(part, a, group * kDepth, tile.row + rank * (kRows / 2), full);
          else copy_box(part, a, group * kDepth, tile.row, full);
          copy_box(memory.b[slot], b, group * kDepth, tile.column, full);
          if (++slot == MX_STAGES) slot = 0, parity ^= 1;
        }
      }
    }
    __syncwarp();
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 224;");
    const u32 lane = threadIdx.x % 32, own = threadIdx.x / 128 * (64 * MX_WAVES) + threadIdx.x / 32 % 4 * 16 + lane / 4;
    // One lane's number of the warpgroup for all: then descriptors are in uniform registers.
    const u32 warpgroup = __shfl_sync(0xFFFFFFFFu, threadIdx.x / 128, 0);
    const u32 from_a = (u32)describe_rows(shared_address(memory.a[0])) + (warpgroup * (64 * MX_WAVES * kDepth) >> 4), from_b = (u32)describe_rows(shared_address(memory.b[0]));
    const u64 high = describe_rows(0) >> 32 << 32;
    u32 parity = 0, chunk = 0, chunk_parity = 0;
#pragma unroll 1
    for (u32 i = first; i < tall * wide; i += step) {
      const Tile tile = find_tile(i, tall, wide, rank);
      float sums[MX_WAVES][kSums], ahead[MX_WAVES][2], ahead_b;
      Part parts[MX_PARTS];
#pragma unroll
      for (int w = 0; w < MX_WAVES; ++w)
#pragma unroll
        for (int s = 0; s < kSums; ++s) sums[w][s] = 0.0f;
      // The next stage is waited for, and its scales are read, while the products of the one before are made.
      const auto prepare = [&](u32 group) {
        const float* const scales = memory.scales[chunk][group];
#pragma unroll
        for (u32 w = 0; w < MX_WAVES; ++w)
#pragma unroll
          for (u32 i = 0; i < 2; ++i) ahead[w][i] = scales[own + 64 * w + 8 * i];
        ahead_b = scales[kRows];
        await(&memory.full[slot], parity);
      };
      const auto start = [&](Part& part, u32 wave) {
        part.scales[0] = ahead[wave][0], part.scales[1] = ahead[wave][1], part.scale_b = ahead_b, part.slot = slot;
        fence_products();
#pragma unroll
        for (int c = 0; c < 4; ++c)
          multiply_tile(part.sums, high | (from_a + (slot * kBytesA + wave * 64 * kDepth >> 4) + 2 * c), high | (from_b + (slot * kBytesB >> 4) + 2 * c), c > 0);
        end_products();
        if (wave == MX_WAVES - 1 && ++slot == MX_STAGES) slot = 0, parity ^= 1;
      };
      const auto finish = [&](Part& part, u32 wave) {
        if (wave == MX_WAVES - 1 && lane < MX_CLUSTER) {
          if (MX_CLUSTER > 1) arrive_at(&memory.empty[part.slot], lane);
          else arrive(&memory.empty[part.slot]);
        }
        // The compiler knows by this that it cannot read them before the wait, nor let the stage wait for them.
#pragma unroll
        for (int s = 0; s < kSums; ++s) asm volatile("" : "+f"(part.sums[s])::"memory");
        const float scales[2] = {fmul(part.scales[0], part.scale_b), fmul(part.scales[1], part.scale_b)};
#pragma unroll
        for (int s = 0; s < kSums; ++s) sums[wave][s] = ffma(part.sums[s], scales[s / 2 % 2], sums[wave][s]);
      };
      const auto leave_chunk = [&] {
        __syncwarp();
        if (lane == 0) arrive(&memory.scales_empty[chunk]);
        if (++chunk == kChunks) chunk = 0, chunk_parity ^= 1;
      };
      const auto enter_chunk = [&] { await(&memory.scales_full[chunk], chunk_parity), prepare(0); };
      // So many groups of a chunk, of which the first is prepared; more: others follow, of this chunk or the next.
      const auto multiply = [&](u32 from, auto count, bool more) {
        constexpr u32 kCount = decltype(count)::value, kSteps = kCount * MX_WAVES;
#pragma unroll
        for (u32 s = 0; s < kSteps; ++s) {
          start(parts[s % MX_PARTS], s % MX_WAVES);
          if (s % MX_WAVES == MX_WAVES - 1) {
            if (s + 1 < kSteps) prepare(from + s / MX_WAVES + 1);
            else if (more && kCount == kChunk) leave_chunk(), enter_chunk();
            else if (more) prepare(from + 1);
          }
          if (MX_PARTS == 1) wait_products<0>(), finish(parts[0], s % MX_WAVES);
          else if (s > 0) wait_products<1>(), finish(parts[(s - 1) % MX_PARTS], (s - 1) % MX_WAVES);
        }
        if (MX_PARTS > 1) wait_products<0>(), finish(parts[(kSteps - 1) % MX_PARTS], (kSteps - 1) % MX_WAVES);
      };
      enter_chunk();
      u32 group = 0;
#pragma unroll 1
      for (; group + kChunk <= groups; group += kChunk) multiply(0, Count<kChunk>(), group + kChunk < groups);
#pragma unroll 1
      for (u32 g = 0; group + g < groups; ++g) multiply(g, Count<1>(), group + g + 1 < groups);
      leave_chunk();
#pragma unroll
      for (int w = 0; w < MX_WAVES; ++w) store_sums(sums[w], y, tile.row + own + 64 * w, tile.column, m, n, aligned);
    }
  }
  // No block leaves while another may write or arrive in its memory.
  if (MX_CLUSTER > 1) meet_cluster();
}
}  // namespace mx
