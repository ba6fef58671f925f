// y = alpha * W x for a few x: W of e2m1 codes and block scales as checkpoints have them (row-major, nothing repacked), x of
// bfloat16, sums in float32 by the tensor cores.
//
// A weight times its scale is exact in bfloat16. A block of threads takes 32 rows of W; its warps take turns on chunks of 128
// columns, of which a lane has 32 neighbours of four rows. Which of a row's products meet in one instruction does not matter,
// so lanes read x where they read codes. Codes of the next chunks are on their way to shared memory meanwhile, each lane's to
// places that it alone reads. The warps' sums are added in order at the end.
//
// A code's magnitude, moved into the exponent and first mantissa bit of a bfloat16, is its value times 2**-126, subnormals
// included; the block's factor brings it back.
//
// Compiled with: MX_SCALE (E8M0 or UE4M3), MX_BLOCK (32 or 16), MX_OUTPUT (0 float32, 1 float16, 2 bfloat16), MX_BATCH (8 or
// 16 columns of x at most), MX_WARPS, MX_BLOCKS_OF_SM, MX_DEPTH (chunks on their way).
#include "fast_block.cuh"
namespace mx {

constexpr int kTiles = MX_BATCH / 8, kScalesOfLane = 32 / MX_BLOCK, kChunk = 128, kRows = 32, kOfLane = 4;
// What the sums lack: the largest e4m3 scale times 2**126 would be too large for a bfloat16.
constexpr float kLeft = MX_SCALE == UE4M3 ? 256.0f : 1.0f;

// 16 bytes on their way to shared memory, zeros where `live` is false; and waiting until at most MX_DEPTH - 1 groups are.
__device__ __forceinline__ void copy_ahead(uint4* to, const u8* from, bool live) {
  const u32 place = (u32)__cvta_generic_to_shared(to), size = live ? 16u : 0u;
  asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16, %2;" ::"r"(place), "l"(from), "r"(size) : "memory");
}
__device__ __forceinline__ void end_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wait_for_first() { asm volatile("cp.async.wait_group %0;" ::"n"(MX_DEPTH - 1) : "memory"); }

// Twice the bfloat16 that brings magnitudes times 2**-126 to values, as far as it goes; `more`: what is left, for scales of 4
// and more among e8m0's and NaN.
__device__ __forceinline__ u32 find_factor(u32 byte, u32* more) {
  if (MX_SCALE == E8M0) {
    *more = byte == 0xFF ? 0x7FC0u : byte > 128 ? (byte - 1) << 7 : 0x3F80u;
    return ((byte > 128 ? 128 : byte) + 126) * 0x00800080u;
  }
  *more = 0x3F80u;
  return twice_bf16(fmul(decode_scale<UE4M3>(byte), 0x1p118f));
}

// Words of the values of codes (0, 4), (1, 5), (2, 6), (3, 7).
__device__ __forceinline__ void decode_pairs(u32 codes, u32 factor, u32 w[4]) {
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const u32 magnitudes = j == 0 ? codes << 6 : j == 1 ? codes << 2 : j == 2 ? codes >> 2 : codes >> 6, signs = codes << (12 - 4 * j);
    w[j] = mul_bf16x2((signs & 0x80008000u) | (magnitudes & 0x01C001C0u), factor);
  }
}

__device__ __forceinline__ void multiply(float c[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// One chunk: codes of four rows, x from `source[tile]` on. Rare: with what is left of the factors.
template <bool Rare>
__device__ __forceinline__ void multiply_chunk(const uint4 codes_of[kOfLane], const u32 factors[kOfLane][kScalesOfLane],
                                               const u32 more[kOfLane][kScalesOfLane], const uint4* const source[kTiles],
                                               float sums[kTiles][2][4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    u32 b[kTiles][4];
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const uint4 v = __ldg(source[tile] + i);
      b[tile][0] = permute(v.x, v.z, 0x5410), b[tile][1] = permute(v.x, v.z, 0x7632);
      b[tile][2] = permute(v.y, v.w, 0x5410), b[tile][3] = permute(v.y, v.w, 0x7632);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      u32 w[2][4];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int row = half * 2 + r, block = i * 8 / MX_BLOCK;
        const u32 codes = i == 0 ? codes_of[row].x : i == 1 ? codes_of[row].y : i == 2 ? codes_of[row].z : codes_of[row].w;
        decode_pairs(codes, factors[row][block], w[r]);
        if (Rare) {
#pragma unroll
          for (int j = 0; j < 4; ++j) w[r][j] = mul_bf16x2(w[r][j], more[row][block] * 0x00010001u);
        }
      }
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        multiply(sums[tile][half], w[0][0], w[1][0], w[0][1], w[1][1], b[tile][0], b[tile][1]);
        multiply(sums[tile][half], w[0][2], w[1][2], w[0][3], w[1][3], b[tile][2], b[tile][3]);
      }
    }
  }
}

// codes [rows, columns / 2], scales [rows, columns / MX_BLOCK]; columns a multiple of 32. x [batch, columns], y [batch, rows].
// alpha: one float32 in memory, or null for the bits given.
extern "C" __global__ void __launch_bounds__(32 * MX_WARPS, MX_BLOCKS_OF_SM)
gemv(const u8* __restrict__ codes, const u8* __restrict__ scales, const u16* __restrict__ x, void* __restrict__ y,
     const float* __restrict__ alpha, u32 alpha_bits, u32 rows, u32 columns, u32 batch) {
  const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5, row0 = blockIdx.x * kRows;
  // Rows and vectors that there are not: others stand in, and their sums are not written.
  const u8 *of_codes[kOfLane], *of_scales[kOfLane];
  const u16* of_x[kTiles];
  const u32 first = warp * kChunk + lane % 4 * 32;
#pragma unroll
  for (int r = 0; r < kOfLane; ++r) {
    const u32 row = row0 + lane / 4 + 8 * r;
    const u64 at = (u64)(row < rows ? row : rows - 1) * columns + first;
    of_codes[r] = codes + at / 2;
    of_scales[r] = scales + at / MX_BLOCK;
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
  auto load_scales = [&](u32 column, u32 bytes[kOfLane]) {
    const bool live = first + column < columns;
#pragma unroll
    for (int r = 0; r < kOfLane; ++r) {
      const u8* s = of_scales[r] + column / MX_BLOCK;
      bytes[r] = !live ? 0u : kScalesOfLane == 2 ? (u32)__ldg(reinterpret_cast<const u16*>(s)) : (u32)__ldg(s);
    }
  };
  float sums[kTiles][2][4] = {};
#pragma unroll
  for (int i = 0; i < MX_DEPTH; ++i) fetch(i * kStep, i);
  u32 next[kOfLane], stage = 0;
  load_scales(0, next);
#pragma unroll 1
  for (u32 column = 0; warp * kChunk + column < columns; column += kStep) {
    uint4 c[kOfLane];
    u32 bytes[kOfLane];
    wait_for_first();
#pragma unroll
    for (int r = 0; r < kOfLane; ++r) c[r] = ring[stage][r][threadIdx.x], bytes[r] = next[r];
    load_scales(column + kStep, next);
    const uint4* source[kTiles];
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
      source[tile] = reinterpret_cast<const uint4*>(first + column < columns ? of_x[tile] + column : x);
    u32 factors[kOfLane][kScalesOfLane], more[kOfLane][kScalesOfLane], rest = 0;
#pragma unroll
    for (int r = 0; r < kOfLane; ++r) {
#pragma unroll
      for (int b = 0; b < kScalesOfLane; ++b) {
        factors[r][b] = find_factor(bytes[r] >> (8 * b) & 0xFFu, &more[r][b]);
        rest |= more[r][b] ^ 0x3F80u;
      }
    }
    // The instruction is a warp's: all its lanes go the same way.
    if (MX_SCALE == E8M0 && __any_sync(0xFFFFFFFFu, rest != 0)) multiply_chunk<true>(c, factors, more, source, sums);
    else multiply_chunk<false>(c, factors, more, source, sums);
    // Into the places just read, whose values have been used.
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
    const float value = fmul(fmul(sum, kLeft), factor);
    const u64 at = (u64)m * rows + row0 + row;
    if (MX_OUTPUT == FLOAT32) static_cast<float*>(y)[at] = value;
    else static_cast<u16*>(y)[at] = (u16)(MX_OUTPUT == FLOAT16 ? pack_f16x2(value, 0.0f) : pack_bf16x2(value, 0.0f));
  }
}
}  // namespace mx
