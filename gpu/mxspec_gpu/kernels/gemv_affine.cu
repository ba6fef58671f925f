// y = alpha * W x for a few x: W of four-bit affine codes with groups along the columns, x in the dtype of the scales, sums in
// float32 by the tensor cores. The scheme is that of gemv.cu.
//
// A weight is fma(q, s, b), or (q - z) * s, rounded once to that dtype.
//
// Compiled with: MX_STORED (1 float16, 2 bfloat16), MX_ZERO, MX_GROUP (a multiple of 32), MX_OUTPUT, MX_BATCH (8 or 16 columns
// of x at most), MX_WARPS, MX_BLOCKS_OF_SM, MX_DEPTH (chunks on their way).
#include "affine_pairs.cuh"
namespace mx {

constexpr int kTiles = MX_BATCH / 8, kChunk = 128, kRows = 32, kOfLane = 4;

// 16 bytes on their way to shared memory, zeros where `live` is false; and waiting until at most MX_DEPTH - 1 groups are.
__device__ __forceinline__ void copy_ahead(uint4* to, const u8* from, bool live) {
  const u32 place = (u32)__cvta_generic_to_shared(to), size = live ? 16u : 0u;
  asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16, %2;" ::"r"(place), "l"(from), "r"(size) : "memory");
}
__device__ __forceinline__ void end_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wait_for_first() { asm volatile("cp.async.wait_group %0;" ::"n"(MX_DEPTH - 1) : "memory"); }

// Words of the values of codes (0, 4), (1, 5), (2, 6), (3, 7).
__device__ __forceinline__ void decode_pairs(u32 codes, const Group& g, u32 w[4]) {
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    if (MX_STORED == BFLOAT16) {
      w[j] = raised_values<MX_ZERO, BFLOAT16>(((codes >> (4 * j)) & 0x000F000Fu) | 0x43004300u, g);
      continue;
    }
    const u32 source = j < 2 ? codes : codes >> 8;
    w[j] = j % 2 ? raised_values16<MX_ZERO>((source & 0x00F000F0u) | 0x64006400u, g)
                 : raised_values<MX_ZERO, FLOAT16>((source & 0x000F000Fu) | 0x64006400u, g);
  }
}

__device__ __forceinline__ void multiply(float c[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
#if MX_STORED == 2
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
#else
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
#endif
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// codes [rows, columns / 2], scales and offsets [rows, columns / MX_GROUP]. x [batch, columns], y [batch, rows].
// alpha: one float32 in memory, or null for the bits given.
extern "C" __global__ void __launch_bounds__(32 * MX_WARPS, MX_BLOCKS_OF_SM)
gemv_affine(const u8* __restrict__ codes, const u16* __restrict__ scales, const void* __restrict__ offsets, const u16* __restrict__ x,
            void* __restrict__ y, const float* __restrict__ alpha, u32 alpha_bits, u32 rows, u32 columns, u32 batch) {
  const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5, row0 = blockIdx.x * kRows;
  // Rows and vectors that there are not: others stand in, and their sums are not written.
  const u8* of_codes[kOfLane];
  u64 of_groups[kOfLane];
  const u16* of_x[kTiles];
  const u32 first = warp * kChunk + lane % 4 * 32, groups = columns / MX_GROUP;
#pragma unroll
  for (int r = 0; r < kOfLane; ++r) {
    const u32 row = row0 + lane / 4 + 8 * r, known = row < rows ? row : rows - 1;
    of_codes[r] = codes + ((u64)known * columns + first) / 2;
    of_groups[r] = (u64)known * groups;
  }
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    const u32 m = tile * 8 + lane / 4;
    of_x[tile] = x + (u64)(m < batch ? m : batch - 1) * columns + first;
  }
  constexpr u32 kStep = MX_WARPS * kChunk;
  __shared__ uint4 ring[MX_DEPTH][kOfLane][32 * MX_WARPS];
  auto fetch = [&](u32 column, u32 stage) {  // `column` after this lane's first
    const bool live = first + column < columns;
#pragma unroll
    for (int r = 0; r < kOfLane; ++r) copy_ahead(&ring[stage][r][threadIdx.x], of_codes[r] + (live ? column / 2 : 0), live);
    end_group();
  };
  // Lanes beyond the columns get scale and offset zero: their weights are zero, as finite x are wherever they read.
  auto load_groups = [&](u32 column, u32 scale[kOfLane], u32 offset[kOfLane]) {
    const bool live = first + column < columns;
    const u32 group = (first + column) / MX_GROUP;
#pragma unroll
    for (int r = 0; r < kOfLane; ++r) {
      scale[r] = live ? (u32)__ldg(scales + of_groups[r] + group) : 0u;
      if (MX_ZERO) offset[r] = live ? (u32)__ldg(static_cast<const u8*>(offsets) + of_groups[r] + group) : 0u;
      else offset[r] = live ? (u32)__ldg(static_cast<const u16*>(offsets) + of_groups[r] + group) : 0u;
    }
  };
  float sums[kTiles][2][4] = {};
#pragma unroll
  for (int i = 0; i < MX_DEPTH; ++i) fetch(i * kStep, i);
  u32 next_scale[kOfLane], next_offset[kOfLane], stage = 0;
  load_groups(0, next_scale, next_offset);
#pragma unroll 1
  for (u32 column = 0; warp * kChunk + column < columns; column += kStep) {
    const bool live = first + column < columns;
    uint4 c[kOfLane];
    Group group[kOfLane];
    wait_for_first();
#pragma unroll
    for (int r = 0; r < kOfLane; ++r) {
      c[r] = ring[stage][r][threadIdx.x];
      group[r] = make_group<MX_ZERO, MX_STORED>(next_scale[r], next_offset[r]);
    }
    load_groups(column + kStep, next_scale, next_offset);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      u32 b[kTiles][4];
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        uint4 v = make_uint4(0, 0, 0, 0);  // a NaN among other columns' x would make the sum NaN
        if (live) v = __ldg(reinterpret_cast<const uint4*>(of_x[tile] + column) + i);
        b[tile][0] = permute(v.x, v.z, 0x5410), b[tile][1] = permute(v.x, v.z, 0x7632);
        b[tile][2] = permute(v.y, v.w, 0x5410), b[tile][3] = permute(v.y, v.w, 0x7632);
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        u32 w[2][4];
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const int row = half * 2 + r;
          decode_pairs(i == 0 ? c[row].x : i == 1 ? c[row].y : i == 2 ? c[row].z : c[row].w, group[row], w[r]);
        }
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
          multiply(sums[tile][half], w[0][0], w[1][0], w[0][1], w[1][1], b[tile][0], b[tile][1]);
          multiply(sums[tile][half], w[0][2], w[1][2], w[0][3], w[1][3], b[tile][2], b[tile][3]);
        }
      }
    }
    fetch(column + MX_DEPTH * kStep, stage);
    stage = stage + 1 == MX_DEPTH ? 0 : stage + 1;
  }
  __shared__ float parts[MX_WARPS][kRows][MX_BATCH + 1];
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < 4; ++i) parts[warp][half * 16 + lane / 4 + i / 2 * 8][tile * 8 + lane % 4 * 2 + i % 2] = sums[tile][half][i];
    }
  }
  __syncthreads();
  const float factor = alpha ? *alpha : float_of(alpha_bits);
  for (u32 i = threadIdx.x; i < kRows * batch; i += 32 * MX_WARPS) {
    const u32 row = i % kRows, m = i / kRows;
    if (row0 + row >= rows) continue;
    float sum = parts[0][row][m];
#pragma unroll
    for (int w = 1; w < MX_WARPS; ++w) sum = fadd(sum, parts[w][row][m]);
    const float value = fmul(sum, factor);
    const u64 at = (u64)m * rows + row0 + row;
    if (MX_OUTPUT == FLOAT32) static_cast<float*>(y)[at] = value;
    else static_cast<u16*>(y)[at] = (u16)(MX_OUTPUT == FLOAT16 ? pack_f16x2(value, 0.0f) : pack_bf16x2(value, 0.0f));
  }
}
}  // namespace mx
