// y = alpha * W x for a few x: W of four-bit codes as checkpoints have them (row-major, nothing repacked), sums in float32 by the
// tensor cores. What a code means is a `Weights`; the scheme is here.
//
// A team of warps takes 32 rows of W each; the teams of a block take turns on chunks of 128 columns, of which a lane has 32
// neighbours of four rows. Which of a row's products meet in one instruction does not matter, so lanes read x where they read
// codes, from shared memory (gemv_x.cuh). Codes of the next chunks are on their way to shared memory meanwhile, each lane's to
// places that it alone reads. The teams' sums are added in order at the end: neither the number of warps in a team, nor that of
// vectors, nor where x lies changes an output.
//
// Factors of two chunks travel with their codes (MX_COPY: all rows start at a multiple of 256 columns), a row's by one lane; or each
// lane loads its own two steps ahead.
//
// Compiled with: MX_OUTPUT (0 float32, 1 float16, 2 bfloat16), MX_BLOCKS_OF_SM, MX_COPY, and what gemv_x.cuh names.
#pragma once
#include "gemv_x.cuh"

namespace mx {

template <int Bytes>  // factors of a row, in a turn; x follows
union Memory {
  struct {
    uint4 ring[kDepth][kOfLane][kThreads];
#if MX_COPY
    __align__(16) u8 factors[2][MX_TEAMS][kRows * Bytes];
#endif
  } loop;
  float parts[MX_TEAMS][kRows][MX_BATCH + 1];
};

// Weights: kHalf; Row (where a lane's factors of a row lie), Loaded (factors of 32 columns as they lie), Factor. place(row, column);
// load(row, column, ahead, live) of the columns find_column(ahead) later; advance(row), a turn on. With MX_COPY instead kBytes of a row in a
// turn, Source (where they lie), find(row, column), copy(to, warp's memory, source, ahead, live), advance(source) and take(warp's
// memory, row of 32, quarter). Then prepare(loaded, factors), which says whether any is rare, complete<Rare>(factor), and
// decode<Rare>(codes, factor, column, w): words of the values of codes (0, 4), (1, 5), (2, 6), (3, 7). finish(sum): what factors lack.
template <class Weights>
__device__ __forceinline__ void multiply_vectors(const Weights& weights, const u8* __restrict__ codes, const u16* __restrict__ x,
                                                 void* __restrict__ y, const float* __restrict__ alpha, u32 alpha_bits, u32 rows,
                                                 u32 columns, u32 batch) {
  extern __shared__ uint4 shared_memory[];
  auto& memory = *reinterpret_cast<Memory<Weights::kBytes>*>(shared_memory);
  const u32 lane = threadIdx.x & 31, q = lane % 4, team = threadIdx.x / (32 * MX_WARPS), member = threadIdx.x % (32 * MX_WARPS);
  const u32 row0 = blockIdx.x * kRows, mine = row0 + member / 32 * 32 + lane / 4;
  const u32 first = team * (2 * kChunk) + q * 32;
  // Rows and vectors that there are not: others stand in, and their sums are not written.
  const u8* of_codes[kOfLane];
#if !MX_COPY
  typename Weights::Row of_row[kOfLane];
#endif
#pragma unroll
  for (int r = 0; r < kOfLane; ++r) {
    const u32 row = mine + 8 * r, known = row < rows ? row : rows - 1;
    of_codes[r] = codes + ((u64)known * columns + first) / 2;
    hold(of_codes[r]);
#if !MX_COPY
    of_row[r] = weights.place(known, first);
#endif
  }
  uint4* const ring = &memory.loop.ring[0][0][threadIdx.x];
  // Columns that this lane has left, of which `ahead` steps are done before; zero where there are none.
  u32 left = first < columns ? columns - first : 0;
#if MX_COPY
  // This lane's row of factors, and where its warp's lie in shared memory.
  const u32 copied = row0 + member / 32 * 32 + lane;
  typename Weights::Source of_factors = weights.find(copied < rows ? copied : rows - 1, team * (2 * kChunk));
  u8* const to_factors = &memory.loop.factors[0][team][member / 32 * 32 * Weights::kBytes];
  constexpr u32 kHalfOfFactors = sizeof(memory.loop.factors[0]);
#endif
  auto fetch = [&](u32 ahead, u32 half) {
    const bool live = left > find_column(ahead);
#pragma unroll
    for (int r = 0; r < kOfLane; ++r)
      copy_ahead<16>(ring + (ahead % 2 * kOfLane + r) * kThreads, of_codes[r] + find_column(ahead) / 2, live);
#if MX_COPY
    if (ahead % 2 == 0) weights.copy(to_factors + half * kHalfOfFactors, lane, of_factors, find_column(ahead), live);
#endif
    end_group();
  };
  typename Weights::Loaded next[2][kOfLane];
  u32 done = 0;
#if !MX_COPY
  auto load_factors = [&](u32 ahead) {
    const bool live = left > find_column(ahead);
#pragma unroll
    for (int r = 0; r < kOfLane; ++r) next[ahead % 2][r] = weights.load(of_row[r], first + done, ahead, live);
  };
#endif
  PlaceOfX vectors(shared_memory + sizeof(memory.loop) / 16, x, columns, batch, team, member);
  float sums[kTiles][2][4] = {};
  // The first or second step of a turn.
  u32 half_factors = 0;
  auto step = [&](const u32 ahead) {
    typename Weights::Factor factors[kOfLane];
#if MX_COPY
    wait_for_first<kDepth>();
    __syncwarp();
#pragma unroll
    for (int r = 0; r < kOfLane; ++r) {
      next[0][r] = weights.take(to_factors + half_factors * kHalfOfFactors, lane / 4 + 8 * r, ahead * 4 + q);
    }
    const bool rare = weights.prepare(next[0], factors);
#else
    const bool rare = weights.prepare(next[ahead], factors);
    load_factors(ahead + 2);
    wait_for_first<kDepth>();
#endif
    uint4 c[kOfLane];
#pragma unroll
    for (int r = 0; r < kOfLane; ++r) c[r] = ring[(ahead * kOfLane + r) * kThreads];
    auto multiply_chunk = [&](auto rarely) {
#pragma unroll
      for (int r = 0; r < kOfLane; ++r) Weights::template complete<decltype(rarely)::value>(factors[r]);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        uint4 b[kTiles];
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) b[tile] = vectors.read(tile, ahead, i);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          u32 w[2][4];
#pragma unroll
          for (int r = 0; r < 2; ++r) {
            const int row = half * 2 + r;
            const u32 word_of_row = i == 0 ? c[row].x : i == 1 ? c[row].y : i == 2 ? c[row].z : c[row].w;
            Weights::template decode<decltype(rarely)::value>(word_of_row, factors[row], i * 8, w[r]);
          }
#pragma unroll
          for (int tile = 0; tile < kTiles; ++tile) {
            multiply<Weights::kHalf>(sums[tile][half], w[0][0], w[1][0], w[0][1], w[1][1], b[tile].x, b[tile].y);
            multiply<Weights::kHalf>(sums[tile][half], w[0][2], w[1][2], w[0][3], w[1][3], b[tile].z, b[tile].w);
          }
        }
      }
    };
    // The instruction is a warp's: all its lanes go the same way.
    if (Weights::kMayBeRare && __any_sync(0xFFFFFFFFu, rare)) multiply_chunk(Answer<true>());
    else multiply_chunk(Answer<false>());
    // Into the places just read, whose values have been used.
    if (MX_COPY) __syncwarp();
    fetch(ahead + kDepth, half_factors ^ 1);
    vectors.pass_step(ahead);
  };
#pragma unroll
  for (int i = 0; i < kDepth; ++i) fetch(i, 0);
  vectors.request();
#if !MX_COPY
  load_factors(0);
  load_factors(1);
#endif
  vectors.begin();
  // All teams take as many turns, the last ones of some on zeros: every warp passes as many barriers.
#pragma unroll 1
  for (; done < columns; done += kTurn) {
    step(0);
    step(1);
    left = left > kTurn ? left - kTurn : 0;
    vectors.pass_turn();
#if MX_COPY
    weights.advance(of_factors);
    half_factors ^= 1;
#endif
#pragma unroll
    for (int r = 0; r < kOfLane; ++r) {
      of_codes[r] += kTurn / 2;
#if !MX_COPY
      weights.advance(of_row[r]);
#endif
    }
  }
  // Sums take the place of codes and x, into which nothing may still be on its way.
  wait_for_all();
  __syncthreads();
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        memory.parts[team][member / 32 * 32 + half * 16 + lane / 4 + i / 2 * 8][tile * 8 + q * 2 + i % 2] = sums[tile][half][i];
    }
  }
  __syncthreads();
  const float factor = alpha ? *alpha : float_of(alpha_bits);
  for (u32 i = threadIdx.x; i < kRows * batch; i += kThreads) {
    const u32 row = i % kRows, m = i / kRows;
    if (row0 + row >= rows) continue;
    float sum = memory.parts[0][row][m];
#pragma unroll
    for (int t = 1; t < MX_TEAMS; ++t) sum = fadd(sum, memory.parts[t][row][m]);
    store_output<MX_OUTPUT>(y, (u64)m * rows + row0 + row, fmul(Weights::finish(sum), factor));
  }
}
}  // namespace mx
