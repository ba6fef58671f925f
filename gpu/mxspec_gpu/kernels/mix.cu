// Moves bytes without arithmetic: what a kernel that reads and writes as many can reach at most.
//
// Compiled with MX_READS and MX_WRITES (16-byte vectors that a block of threads reads and writes), MX_THREADS, MX_LOAD(p) and
// MX_STORE(p, v) of 16 bytes.
typedef unsigned long long u64;

extern "C" __global__ void __launch_bounds__(MX_THREADS) move_bytes(const uint4* __restrict__ x, uint4* __restrict__ y) {
  constexpr int kReads = (MX_READS + MX_THREADS - 1) / MX_THREADS, kWrites = (MX_WRITES + MX_THREADS - 1) / MX_THREADS;
  const uint4* source = x + (u64)blockIdx.x * MX_READS;
  uint4* to = y + (u64)blockIdx.x * MX_WRITES;
  uint4 v[kReads + 1];
#pragma unroll
  for (int i = 0; i < kReads; ++i) {
    const int at = i * MX_THREADS + threadIdx.x;
    v[i] = at < MX_READS ? MX_LOAD(source + at) : make_uint4(0, 0, 0, 0);
  }
  uint4 held = make_uint4(0, 0, 0, 0);
#pragma unroll
  for (int i = 0; i < kReads; ++i) held.x ^= v[i].x, held.y ^= v[i].y, held.z ^= v[i].z, held.w ^= v[i].w;
#pragma unroll
  for (int i = 0; i < kWrites; ++i) {
    const int at = i * MX_THREADS + threadIdx.x;
    if (at < MX_WRITES) MX_STORE(to + at, held);
  }
  // Never true of what is read, but the compiler cannot know.
  if (MX_WRITES == 0 && held.x == 0x9E3779B9u && held.y == 0xBB67AE85u && held.z == 1u && held.w == 2u) MX_STORE(to, held);
}
