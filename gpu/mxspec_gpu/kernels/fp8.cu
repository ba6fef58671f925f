// Products of FP8 codes in groups of 128 columns on Hopper: y = sum over the groups of scale_a * scale_b * (the sum of 128 products).
//
// A group's sum is wgmma's, four instructions of 32 columns each; it goes to float32 by one fused multiply-add with the product of both
// scales, rounded to float32. Groups follow one another from the first to the last, so an output depends on its own row and column alone.
//
// Both operands are brought as they lie, by the copy engine, for which one thread asks. The warpgroups multiply, each 64 rows of a tile. Of
// MX_UNROLL groups each begins before the sums of the one before are moved, so that the tensor cores have work meanwhile. Two blocks of a cluster have tiles below each other; each brings half of b's
// rows for both. Blocks stay, and take one tile after the other, in bands that share rows of a and b in the L2 cache.
//
// Compiled with: MX_GROUPS (warpgroups that multiply: 1 or 2), MX_COLUMNS (rows of b of a tile: 16 to 192), MX_STAGES, MX_CLUSTER (1 or 2),
// MX_UNROLL, MX_SCALE, MX_OUTPUT.
#include "hopper.cuh"
#include "wgmma.generated.cuh"

namespace mx {

constexpr int kDepth = 128;  // columns of a stage, and of a group
constexpr int kRows = 64 * MX_GROUPS, kThreads = 128 * (MX_GROUPS + 1), kSums = MX_COLUMNS / 2;
constexpr int kBytesA = kRows * kDepth, kBytesB = MX_COLUMNS * kDepth, kPartB = kBytesB / MX_CLUSTER;
constexpr u32 kBlocks = MX_COLUMNS > 128 ? 2 : 1;
constexpr u32 kBand = 16 / MX_CLUSTER;  // tiles, or pairs, that one column of tiles goes down

// What the driver encodes for the copy engine.
struct alignas(64) TensorMap {
  u64 words[16];
};

struct Stages {
  u8 a[MX_STAGES][kBytesA];
  u8 b[MX_STAGES][kBytesB];
  u64 full[MX_STAGES], empty[MX_STAGES];
};

__device__ __forceinline__ float load_scale(const void* scales, u64 at) {
  if (MX_SCALE == FLOAT32) return __ldg(static_cast<const float*>(scales) + at);
  const u32 byte = __ldg(static_cast<const u8*>(scales) + at);
  return float_of(byte == 0 ? 0x00400000u : byte == 0xFF ? kNan : byte << 23);
}

// Whose scales a thread needs: those of two rows of a, and of the one or two blocks of b in which its tile has columns.
struct Factors {
  const void *a, *b;
  u32 low, high, row_a, group_a, row_b, group_b, column, last;
  __device__ __forceinline__ void load(float (&to)[2 + kBlocks], u32 group) const {
    to[0] = load_scale(a, (u64)low * row_a + (u64)group * group_a), to[1] = load_scale(a, (u64)high * row_a + (u64)group * group_a);
#pragma unroll
    for (u32 i = 0; i < kBlocks; ++i) to[2 + i] = load_scale(b, (u64)min(column / 128 + i, last) * row_b + (u64)group * group_b);
  }
};
// The products of one group, with the scales of both rows and of the blocks.
struct Part {
  float sums[kSums], factors[2 + kBlocks];
  u32 slot;
};

struct Tile {
  u32 row, column;
};
__device__ __forceinline__ Tile find_tile(u32 i, u32 tall, u32 wide, u32 rank) {
  const u32 first = i / (kBand * wide) * kBand, height = min(kBand, tall - first), within = i - first * wide;
  return {((first + within % height) * MX_CLUSTER + rank) * kRows, within / height * MX_COLUMNS};
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
// aligned: n is a multiple of eight, and y begins at one of 16 bytes.
extern "C" __global__ void __cluster_dims__(MX_CLUSTER, 1, 1) __launch_bounds__(kThreads, 1)
multiply_groups(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, const void* scales_a, const void* scales_b, void* y,
                u32 m, u32 n, u32 k, u32 row_a, u32 group_a, u32 row_b, u32 group_b, u32 bytes, u32 aligned) {
  extern __shared__ __align__(1024) u8 shared_memory[];
  auto& memory = *reinterpret_cast<Stages*>(shared_memory);
  const u32 rank = MX_CLUSTER > 1 ? rank_in_cluster() : 0, groups = (k + kDepth - 1) / kDepth;
  const u32 tall = (m + kRows * MX_CLUSTER - 1) / (kRows * MX_CLUSTER), wide = (n + MX_COLUMNS - 1) / MX_COLUMNS;
  const u32 first = blockIdx.x / MX_CLUSTER, step = gridDim.x / MX_CLUSTER;
  if (threadIdx.x == 0) {
#pragma unroll
    for (int i = 0; i < MX_STAGES; ++i) init_barrier(&memory.full[i], 1), init_barrier(&memory.empty[i], 4 * MX_GROUPS * MX_CLUSTER);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  if (MX_CLUSTER > 1) meet_cluster();
  else __syncthreads();
  u32 slot = 0;
  if (threadIdx.x >= 128 * MX_GROUPS) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x == 128 * MX_GROUPS) {
      asm volatile("prefetch.tensormap [%0]; prefetch.tensormap [%1];" ::"l"(&a), "l"(&b) : "memory");
      u32 parity = 1;
#pragma unroll 1
      for (u32 i = first; i < tall * wide; i += step) {
        const Tile tile = find_tile(i, tall, wide, rank);
#pragma unroll 1
        for (u32 group = 0; group < groups; ++group) {
          u64* const full = &memory.full[slot];
          wait(&memory.empty[slot], parity);
          asm volatile("{.reg .b64 t; mbarrier.arrive.expect_tx.shared::cta.b64 t, [%0], %1;}" ::"r"(shared_address(full)), "r"(bytes) : "memory");
          copy_box(memory.a[slot], a, group * kDepth, tile.row, full);
          u8* const part = memory.b[slot] + rank * kPartB;
          if (MX_CLUSTER > 1) copy_box_to_both(part, b, group * kDepth, tile.column + rank * (MX_COLUMNS / 2), full);
          else copy_box(part, b, group * kDepth, tile.column, full);
          if (++slot == MX_STAGES) slot = 0, parity ^= 1;
        }
      }
    }
    __syncwarp();
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    const u32 lane = threadIdx.x % 32, own = threadIdx.x / 32 * 16 + lane / 4;
    const u64 from_a = describe_rows(shared_address(memory.a[0]) + threadIdx.x / 128 * (64 * kDepth)), from_b = describe_rows(shared_address(memory.b[0]));
    u32 parity = 0;
#pragma unroll 1
    for (u32 i = first; i < tall * wide; i += step) {
      const Tile tile = find_tile(i, tall, wide, rank);
      const Factors factors = {scales_a, scales_b, min(tile.row + own, m - 1), min(tile.row + own + 8, m - 1), row_a, group_a, row_b, group_b, tile.column, (n - 1) / 128};
      float sums[kSums];
      Part parts[MX_UNROLL > 1 ? 2 : 1];
#pragma unroll
      for (int s = 0; s < kSums; ++s) sums[s] = 0.0f;
      const auto start = [&](Part& part, u32 group) {
        factors.load(part.factors, group);
        wait(&memory.full[slot], parity);
        fence_products();
#pragma unroll
        for (int c = 0; c < 4; ++c)
          multiply_tile(part.sums, from_a + (slot * kBytesA >> 4) + 2 * c, from_b + (slot * kBytesB >> 4) + 2 * c, c > 0);
        end_products();
        part.slot = slot;
        if (++slot == MX_STAGES) slot = 0, parity ^= 1;
      };
      const auto finish = [&](Part& part) {
        // The compiler knows by this that it cannot read them before the wait.
#pragma unroll
        for (int s = 0; s < kSums; ++s) asm volatile("" : "+f"(part.sums[s])::"memory");
        if (lane < MX_CLUSTER) {
          if (MX_CLUSTER > 1) arrive_at(&memory.empty[part.slot], lane);
          else arrive(&memory.empty[part.slot]);
        }
        float scales[2 * kBlocks];
#pragma unroll
        for (int i = 0; i < 2 * kBlocks; ++i) scales[i] = fmul(part.factors[i % 2], part.factors[2 + i / 2]);
#pragma unroll
        for (int s = 0; s < kSums; ++s) {
          const int c = s / 32;  // 64 columns; the middle ones of 192 belong to the first block of b's scales or to the second
          const float low = scales[s / 2 % 2], high = scales[kBlocks * 2 - 2 + s / 2 % 2];
          sums[s] = ffma(part.sums[s], kBlocks == 1 || c == 0 ? low : c == 2 ? high : tile.column % 128 ? high : low, sums[s]);
        }
      };
      u32 group = 0;
#pragma unroll 1
      for (; group + MX_UNROLL <= groups; group += MX_UNROLL) {
        start(parts[0], group);
#pragma unroll
        for (u32 u = 1; u < MX_UNROLL; ++u) start(parts[u % 2], group + u), wait_products<1>(), finish(parts[(u - 1) % 2]);
        wait_products<0>(), finish(parts[(MX_UNROLL - 1) % 2]);
      }
#pragma unroll 1
      for (; group < groups; ++group) start(parts[0], group), wait_products<0>(), finish(parts[0]);
      store_sums(sums, y, tile.row + own, tile.column, m, n, aligned);
    }
  }
  // No block leaves while another may write or arrive in its memory.
  if (MX_CLUSTER > 1) meet_cluster();
}
}  // namespace mx
