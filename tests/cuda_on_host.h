// A launch of a CUDA kernel on a host: the threads of a block are fibers that take turns, so that every run is the same.
//
// Included before a kernel's file. Shuffles and barriers meet as on the chip, for full warps and masks; a thread that has returned
// is not waited for. What never ends is reported, not waited for. Warps run one after the other between barriers, so this finds
// wrong numbers and places, and no race.
#pragma once
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <type_traits>
#include <ucontext.h>
#include <utility>
#include <vector>

namespace host {
struct Index {
  unsigned x = 0, y = 0, z = 0;
};
struct Fiber {
  ucontext_t context;
  std::vector<char> stack = std::vector<char>(1 << 16);
  bool done = false;
};
// Threads that wait for each other: how many are there, and which meeting this is.
struct Meeting {
  unsigned expected = 0, arrived = 0, number = 0;
};
struct Warp {
  Meeting meeting;
  unsigned long long slots[32];
};

inline Index thread, block, block_size, grid_size;
inline std::vector<Fiber> fibers;
inline std::vector<Warp> warps;
inline Meeting whole;
inline ucontext_t scheduler;
inline std::function<void()> body;
inline bool moved;

inline void yield() {
  const unsigned self = thread.x;
  swapcontext(&fibers[self].context, &scheduler);
  thread.x = self;
}
inline void release(Meeting& m) {
  if (m.expected && m.arrived == m.expected) m.arrived = 0, ++m.number, moved = true;
}
inline void meet(Meeting& m) {
  const unsigned number = m.number;
  ++m.arrived;
  release(m);
  while (m.number == number) yield();
}
inline void leave(Meeting& m) { --m.expected, release(m); }
inline void enter() {
  body();
  fibers[thread.x].done = moved = true;
  leave(whole), leave(warps[thread.x / 32].meeting);
}

template <class T>
T exchange(T value, unsigned from) {
  static_assert(sizeof(T) <= 8, "a word of a shuffle");
  Warp& warp = warps[thread.x / 32];
  const unsigned lane = thread.x % 32;
  memcpy(warp.slots + lane, &value, sizeof value);
  meet(warp.meeting);
  T found = value;
  if (from < 32) memcpy(&found, warp.slots + from, sizeof found);
  meet(warp.meeting);
  return found;
}

inline void run_block(unsigned threads) {
  fibers = std::vector<Fiber>(threads);
  warps = std::vector<Warp>((threads + 31) / 32);
  whole = Meeting{threads};
  for (unsigned i = 0; i < threads; ++i) {
    ++warps[i / 32].meeting.expected;
    getcontext(&fibers[i].context);
    fibers[i].context.uc_stack.ss_sp = fibers[i].stack.data(), fibers[i].context.uc_stack.ss_size = fibers[i].stack.size();
    fibers[i].context.uc_link = &scheduler;
    makecontext(&fibers[i].context, enter, 0);
  }
  for (bool alive = true; alive;) {
    alive = moved = false;
    for (unsigned i = 0; i < threads; ++i) {
      if (fibers[i].done) continue;
      alive = true, thread.x = i;
      swapcontext(&scheduler, &fibers[i].context);
    }
    if (alive && !moved) fprintf(stderr, "block %u, %u waits for ever\n", block.x, block.y), abort();
  }
}

template <class... A, std::size_t... I>
void call(void (*kernel)(A...), void** p, std::index_sequence<I...>) {
  kernel(*static_cast<std::remove_cv_t<std::remove_reference_t<A>>*>(p[I])...);
}

// parameters: the address of each, as cuLaunchKernel takes them.
template <class... A>
void launch(void (*kernel)(A...), unsigned across, unsigned down, unsigned threads, void** parameters) {
  body = [=] { call(kernel, parameters, std::index_sequence_for<A...>{}); };
  grid_size = {across, down, 1}, block_size = {threads, 1, 1};
  for (block.y = 0; block.y < down; ++block.y)
    for (block.x = 0; block.x < across; ++block.x) run_block(threads);
}
}  // namespace host

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))
#define threadIdx host::thread
#define blockIdx host::block
#define blockDim host::block_size
#define gridDim host::grid_size

struct uint2 { unsigned x, y; };
struct __align__(16) uint4 { unsigned x, y, z, w; };
struct __align__(16) float4 { float x, y, z, w; };
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
template <class T> T __ldg(const T* p) { return *p; }
template <class T> T __ldcs(const T* p) { return *p; }
template <class T> T __ldcg(const T* p) { return *p; }
template <class T> void __stcs(T* p, T v) { *p = v; }
template <class T> void __stcg(T* p, T v) { *p = v; }
inline void __syncthreads() { host::meet(host::whole); }
inline void __syncwarp() { host::meet(host::warps[threadIdx.x / 32].meeting); }
template <class T> T __shfl_xor_sync(unsigned, T v, unsigned d) { return host::exchange(v, threadIdx.x % 32 ^ d); }
template <class T> T __shfl_down_sync(unsigned, T v, unsigned d) { return host::exchange(v, threadIdx.x % 32 + d); }
template <class T> T atomicMax(T* p, T v) { const T old = *p; *p = old < v ? v : old; return old; }
template <class T> T atomicMin(T* p, T v) { const T old = *p; *p = v < old ? v : old; return old; }
inline unsigned load_word_ahead(const void* p) { return *static_cast<const unsigned*>(p); }
