// y = alpha * W x for a few x: W of 2:4 sparse e2m1 codes, nibbles and block scales as `dequantize_sparse` takes them, x of bfloat16,
// sums in float32 by the sparse tensor cores: only what was kept is decoded, and the nibbles are the instruction's metadata.
//
// A block of threads takes 32 rows of W; its warps take turns on chunks of 256 columns, of which a lane has 64 neighbours of
// four rows. One instruction takes a group of four columns from each of the four lanes of a row; which of a row's groups meet does not
// matter. The lane whose turn it is hands over their nibbles: lane q of the four has those of groups 2q and 2q + 1 (of a half of
// the chunk) of all four. x lies where the instruction wants it: lane q reads every second word of lanes q / 2 and 2 + q / 2.
//
// A nibble that is none of the six legal ones makes its row NaN.
//
// Compiled with: MX_SCALE (E8M0 or UE4M3), MX_BLOCK (32 or 16), MX_OUTPUT (0 float32, 1 float16, 2 bfloat16), MX_BATCH (8 or
// 16 columns of x at most), MX_WARPS, MX_BLOCKS_OF_SM, MX_DEPTH (chunks on their way).
#include "fast_block.cuh"
#include "gemv_parts.cuh"
namespace mx {

constexpr int kTiles = MX_BATCH / 8, kRun = 64, kScalesOfLane = kRun / MX_BLOCK, kChunk = 256, kRows = 32, kOfLane = 4;
// Halves of a chunk that are unrolled: with two tiles of x there are no registers for both.
constexpr int kHalves = kTiles == 1 ? 2 : 1;

// Twice the bfloat16 of a scale; all are exact.
__device__ __forceinline__ u32 find_factor(u32 byte) {
  if (MX_SCALE == E8M0) return (byte == 0 ? 0x0040u : byte == 0xFF ? 0x7FC0u : byte << 7) * 0x00010001u;
  return twice_bf16(decode_scale<UE4M3>(byte));
}

// Bit 2 of each nibble that is legal. With f and s the places of the first and the second, 3 + s - f has it where s is the larger; no
// borrow leaves a nibble.
__device__ __forceinline__ u32 find_legal(u32 nibbles) {
  return ((nibbles >> 2 & 0x33333333u) | 0x44444444u) - (nibbles & 0x33333333u) - 0x11111111u;
}

// The low nibbles of four bytes, side by side.
__device__ __forceinline__ u32 join_low(u32 bytes) {
  const u32 pairs = (bytes & 0x000F000Fu) | (bytes >> 4 & 0x00F000F0u);
  return permute(pairs, 0u, 0x4420);
}

// What lanes read that are beyond the columns.
__device__ const u32 kNoX[kRun / 2] = {};

template <int Turn>
__device__ __forceinline__ void multiply(float c[4], u32 a0, u32 a1, u32 b0, u32 b1, u32 nibbles) {
  asm("mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6, %7}, {%0, %1, %2, %3}, %8, %9;"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a0), "r"(a1), "r"(b0), "r"(b1), "r"(nibbles), "n"(Turn));
}

// kept [rows, columns / 4], metadata [rows, columns / 8], scales [rows, columns / MX_BLOCK]; columns a multiple of 64.
// x [batch, columns], y [batch, rows]. alpha: one float32 in memory, or null for the bits given.
extern "C" __global__ void __launch_bounds__(32 * MX_WARPS, MX_BLOCKS_OF_SM)
gemv_sparse(const u8* __restrict__ kept, const u8* __restrict__ metadata, const u8* __restrict__ scales, const u16* __restrict__ x,
            void* __restrict__ y, const float* __restrict__ alpha, u32 alpha_bits, u32 rows, u32 columns, u32 batch) {
  const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5, row0 = blockIdx.x * kRows, q = lane % 4;
  // Rows and vectors that there are not: others stand in, and their sums are not written.
  u32 run_of[kOfLane];  // this lane's first run of 64 columns in a row
  const u16* of_x[kTiles];
  const u32 begin = warp * kChunk, first = begin + q * kRun;
#pragma unroll
  for (int r = 0; r < kOfLane; ++r) {
    const u32 row = row0 + lane / 4 + 8 * r;
    run_of[r] = (row < rows ? row : rows - 1) * (columns / kRun) + first / kRun;
  }
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    const u32 m = tile * 8 + lane / 4;
    of_x[tile] = x + (u64)(m < batch ? m : batch - 1) * columns;
  }
  constexpr u32 kStep = MX_WARPS * kChunk;
  __shared__ uint4 ring[MX_DEPTH][kOfLane][32 * MX_WARPS];
  // Of each warp, half of a chunk and row: the words of the four lanes.
  __shared__ __align__(16) u32 nibbles_of[MX_DEPTH][MX_WARPS][2][kRows][4];
  auto fetch = [&](u32 column, u32 stage) {  // `column` after this lane's first
    const bool live = first + column < columns;
#pragma unroll
    for (int r = 0; r < kOfLane; ++r) {
      const u64 run = live ? run_of[r] + column / kRun : 0u;
      copy_ahead<16>(&ring[stage][r][threadIdx.x], kept + run * (kRun / 4), live);
#pragma unroll
      for (int h = 0; h < 2; ++h)
        copy_ahead<4>(&nibbles_of[stage][warp][h][lane / 4 + 8 * r][q], metadata + run * (kRun / 8) + 4 * h, live);
    }
    end_group();
  };
  auto load_scales = [&](u32 column, u32 bytes[kOfLane]) {
    const bool live = first + column < columns;
#pragma unroll
    for (int r = 0; r < kOfLane; ++r) {
      const u8* s = scales + (u64)(live ? run_of[r] + column / kRun : 0u) * kScalesOfLane;
      bytes[r] = !live ? 0u : kScalesOfLane == 2 ? (u32)__ldg(reinterpret_cast<const u16*>(s)) : __ldg(reinterpret_cast<const u32*>(s));
    }
  };
  float sums[kTiles][2][4] = {};
  u32 legal[kOfLane] = {0x44444444u, 0x44444444u, 0x44444444u, 0x44444444u};
#pragma unroll
  for (int i = 0; i < MX_DEPTH; ++i) fetch(i * kStep, i);
  u32 next[kOfLane], stage = 0;
  load_scales(0, next);
#pragma unroll 1
  for (u32 column = 0; begin + column < columns; column += kStep) {
    u32 bytes[kOfLane];
    wait_for_first<MX_DEPTH>();
    __syncwarp();  // a lane reads the nibbles that its neighbours fetched
#pragma unroll
    for (int r = 0; r < kOfLane; ++r) bytes[r] = next[r];
    load_scales(column + kStep, next);
    const u32 start = begin + column;
    const u32* source[kTiles][2];
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      const u32 from = start + (2 * s + q / 2) * kRun;
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile)
        source[tile][s] = (from < columns ? reinterpret_cast<const u32*>(of_x[tile] + from) : kNoX) + q % 2;
    }
    // Nibbles of lanes beyond the columns do not count.
    const u32 lanes = (columns - start) / kRun, beyond = lanes >= 4 ? 0u : 0xFFFFFFFFu << (8 * lanes);
#pragma unroll kHalves
    for (int h = 0; h < 2; ++h) {
      // Of rows r and r + 1: nibbles of this lane's two groups, of the four lanes of each row.
      u32 turns[2][2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        u32 four[2];
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const uint4 w = *reinterpret_cast<const uint4*>(nibbles_of[stage][warp][h][lane / 4 + 8 * (2 * half + r)]);
          const u32 pick = q | (q + 4) << 4;
          four[r] = permute(permute(w.x, w.y, pick), permute(w.z, w.w, pick), 0x5410);
          legal[2 * half + r] &= find_legal(four[r]) | beyond;
        }
        turns[half][0] = join_low(four[0]) | join_low(four[1]) << 16;
        turns[half][1] = join_low(four[0] >> 4) | join_low(four[1] >> 4) << 16;
      }
      u32 factors[kOfLane][32 / MX_BLOCK];
      uint2 codes[kOfLane];
#pragma unroll
      for (int r = 0; r < kOfLane; ++r) {
        codes[r] = reinterpret_cast<const uint2*>(&ring[stage][r][threadIdx.x])[h];
#pragma unroll
        for (int b = 0; b < 32 / MX_BLOCK; ++b) factors[r][b] = find_factor(bytes[r] >> (8 * (h * (32 / MX_BLOCK) + b)) & 0xFFu);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {  // 16 columns: four groups, a word of kept codes
        u32 w[kOfLane][4];
#pragma unroll
        for (int r = 0; r < kOfLane; ++r) {
          decode8_e2m1_bf16(i == 0 ? codes[r].x : codes[r].y, w[r]);
#pragma unroll
          for (int j = 0; j < 4; ++j) w[r][j] = mul_bf16x2(w[r][j], factors[r][i * 16 / MX_BLOCK]);
        }
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
          u32 b[2][4];
#pragma unroll
          for (int s = 0; s < 2; ++s) {
#pragma unroll
            for (int j = 0; j < 4; ++j) b[s][j] = __ldg(source[tile][s] + 16 * h + 8 * i + 2 * j);
          }
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            float* c = sums[tile][half];
            const u32(&low)[4] = w[2 * half], (&high)[4] = w[2 * half + 1];
            if (i == 0) {
              multiply<0>(c, low[0], high[0], b[0][0], b[1][0], turns[half][0]);
              multiply<0>(c, low[1], high[1], b[0][1], b[1][1], turns[half][1]);
              multiply<1>(c, low[2], high[2], b[0][2], b[1][2], turns[half][0]);
              multiply<1>(c, low[3], high[3], b[0][3], b[1][3], turns[half][1]);
            } else {
              multiply<2>(c, low[0], high[0], b[0][0], b[1][0], turns[half][0]);
              multiply<2>(c, low[1], high[1], b[0][1], b[1][1], turns[half][1]);
              multiply<3>(c, low[2], high[2], b[0][2], b[1][2], turns[half][0]);
              multiply<3>(c, low[3], high[3], b[0][3], b[1][3], turns[half][1]);
            }
          }
        }
      }
    }
    __syncwarp();
    // Into the places just read, whose values have been used.
    fetch(column + MX_DEPTH * kStep, stage);
    stage = stage + 1 == MX_DEPTH ? 0 : stage + 1;
  }
  __shared__ float parts[MX_WARPS][kRows][MX_BATCH + 1];
#pragma unroll
  for (int r = 0; r < kOfLane; ++r) {
    u32 all = legal[r];
    all &= __shfl_xor_sync(0xFFFFFFFFu, all, 1);
    all &= __shfl_xor_sync(0xFFFFFFFFu, all, 2);
    // Row lane / 4 + 8 r is sums[..][r / 2][r % 2 * 2 ...] of this lane.
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int j = 0; j < 2; ++j)
        parts[warp][lane / 4 + 8 * r][tile * 8 + q * 2 + j] = (all & 0x44444444u) != 0x44444444u ? float_of(kNan) : sums[tile][r / 2][r % 2 * 2 + j];
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
    store_output<MX_OUTPUT>(y, (u64)m * rows + row0 + row, fmul(sum, factor));
  }
}
}  // namespace mx
