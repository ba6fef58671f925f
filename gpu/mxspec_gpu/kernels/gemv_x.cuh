// x of the products with a few vectors, in shared memory, in the order in which `Weights` decodes: whole, where it fits, so that the
// warps of a block need not meet before the end; or a team's two chunks of a turn, each loaded a step ahead.
//
// Compiled with: MX_BATCH (columns of x at most, a multiple of 8), MX_TEAMS, MX_WARPS (of a team), MX_WHOLE.
#pragma once
#include "gemv_parts.cuh"

namespace mx {

// Chunks of codes on their way: the two of a turn.
constexpr int kDepth = 2, kTiles = MX_BATCH / 8, kChunk = 128, kOfLane = 4, kThreads = 32 * MX_TEAMS * MX_WARPS, kRows = 32 * MX_WARPS;
// A team takes two chunks that follow one another, a turn; then the next turn's, after the other teams' chunks.
constexpr u32 kTurn = 2 * MX_TEAMS * kChunk;
constexpr __device__ u32 find_column(u32 ahead) { return ahead / 2 * kTurn + ahead % 2 * kChunk; }

// Keeps a pointer in its registers: recomputing it takes more instructions in every turn.
template <class T>
__device__ __forceinline__ void hold(T*& pointer) { asm volatile("" : "+l"(pointer)); }

// Eight values of x, as the products take them, and where the word lies among the 16 of a chunk.
__device__ __forceinline__ uint4 order_x(uint4 v) {
  return make_uint4(permute(v.x, v.z, 0x5410), permute(v.x, v.z, 0x7632), permute(v.y, v.w, 0x5410), permute(v.y, v.w, 0x7632));
}
constexpr __device__ u32 place_word(u32 word) { return word % 4 * 4 + word / 4; }

#if MX_WHOLE
// All of x, zeros up to a whole turn. Four words between vectors keep lanes of two of them out of each other's banks.
struct PlaceOfX {
  uint4* const held;
  const u16* const x;
  const u32 columns, batch, words, pitch;
  const uint4* of_x[kTiles];

  __device__ __forceinline__ PlaceOfX(uint4* memory, const u16* from, u32 k, u32 vectors, u32 team, u32)
      : held(memory), x(from), columns(k), batch(vectors), words((k + kTurn - 1) / kTurn * (kTurn / 8)), pitch(words + 4) {
    const u32 lane = threadIdx.x & 31;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const u32 m = tile * 8 + lane / 4;
      of_x[tile] = held + (m < batch ? m : batch - 1) * pitch + team * (2 * kChunk / 8) + lane % 4;
    }
  }
  __device__ __forceinline__ void request() {}
  __device__ __forceinline__ void begin() {
    for (u32 m = 0; m < batch; ++m) {
      const uint4* from = reinterpret_cast<const uint4*>(x + (u64)m * columns);
#pragma unroll 4
      for (u32 w = threadIdx.x; w < words; w += kThreads)
        held[m * pitch + w / 16 * 16 + place_word(w % 16)] = w * 8 < columns ? order_x(__ldg(from + w)) : make_uint4(0, 0, 0, 0);
    }
    __syncthreads();
  }
  __device__ __forceinline__ uint4 read(int tile, u32 ahead, int i) const { return of_x[tile][ahead * (kChunk / 8) + i * 4]; }
  __device__ __forceinline__ void pass_step(u32) {}
  __device__ __forceinline__ void pass_turn() {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) of_x[tile] += kTurn / 8;
  }
};
#else
// Chunks of x: 16 words of 16 bytes a vector; the four that lie between vectors keep lanes of two of them out of each other's banks.
typedef uint4 Chunks[MX_TEAMS][kTiles * 8][20];
struct PlaceOfX {
  static constexpr u32 kPass = 2 * MX_WARPS, kUnits = (kTiles * 8 + kPass - 1) / kPass;  // vectors that a team takes at once
  const u16* of_words;
  u32 left_words;
  const u32 columns, batch, vector, team;
  uint4* const to_words;
  uint4 words[kUnits];
  const uint4* of_x[kTiles];

  __device__ __forceinline__ PlaceOfX(uint4* memory, const u16* x, u32 k, u32 vectors, u32 of_team, u32 member)
      : columns(k), batch(vectors), vector(member / 16), team(of_team),
        to_words(&reinterpret_cast<Chunks*>(memory)[0][of_team][member / 16][place_word(member % 16)]) {
    const u32 lane = threadIdx.x & 31, first = team * (2 * kChunk) + member % 16 * 8;
    of_words = x + (u64)vector * columns + first;
    hold(of_words);
    left_words = first < columns ? columns - first : 0;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const u32 m = tile * 8 + lane / 4;
      of_x[tile] = &reinterpret_cast<Chunks*>(memory)[0][team][m < batch ? m : batch - 1][lane % 4];
    }
  }
  // This thread's words of its team's chunk; zeros beyond the columns.
  __device__ __forceinline__ void load(u32 ahead) {
    const bool live = left_words > find_column(ahead);
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      words[u] = make_uint4(0, 0, 0, 0);
      if (live && vector + u * kPass < batch)
        words[u] = __ldg(reinterpret_cast<const uint4*>(of_words + (u64)(u * kPass) * columns + find_column(ahead)));
    }
  }
  __device__ __forceinline__ void store(u32 half) {
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      if (vector + u * kPass < batch) to_words[half * (sizeof(Chunks) / 16) + u * kPass * 20] = order_x(words[u]);
    }
  }
  __device__ __forceinline__ void meet() const {  // of the team
    if (MX_WARPS == 1) __syncwarp();
    else asm volatile("bar.sync %0, %1;" ::"r"(team + 1), "n"(32 * MX_WARPS) : "memory");
  }
  __device__ __forceinline__ void request() { load(0); }
  __device__ __forceinline__ void begin() {
    store(0);
    load(1);
    meet();
  }
  __device__ __forceinline__ uint4 read(int tile, u32 ahead, int i) const { return of_x[tile][ahead * (sizeof(Chunks) / 16) + i * 4]; }
  __device__ __forceinline__ void pass_step(u32 ahead) {
    store(ahead ^ 1);
    load(ahead + 2);
    meet();
  }
  __device__ __forceinline__ void pass_turn() {
    left_words = left_words > kTurn ? left_words - kTurn : 0;
    of_words += kTurn;
  }
};
#endif

}  // namespace mx
