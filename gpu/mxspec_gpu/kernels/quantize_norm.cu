// RMSNorm, quantized in the same pass: a block of threads has a row of x. It adds its squares up, lays the normalized row down in
// shared memory, and quantizes it from there as rows.cuh does.
//
// f = RN(RN(x * r) * weight), RN to the type of x; r = 1 / sqrt(sum / K + eps), each operation of float32 rounded once. The order of the sum
// follows from K alone: a thread adds the squares of each of its eights, one after the other, then those; then lanes, then warps are
// added in pairs.
//
// Compiled with: what rows.cuh takes, of 16-bit numbers; MX_SOURCE 0, MX_TILED but 3, MX_TURNS 2, MX_LOAD(p) from any memory.
#include "rows.cuh"
namespace mx {

constexpr u32 kHeld = 8;                        // words of 16 bytes that a thread brings
constexpr u32 kSegment = MX_THREADS * kHeld;    // and a block of threads: of a longer row, one part after the other
constexpr int kWarps = MX_THREADS / 32;
static_assert(kIn != FLOAT32 && MX_SOURCE == 0 && MX_TILED != 3, "a row of 16-bit numbers at a time");

MX_HD float square_root(float x) {
#if MX_CHIP
  return __fsqrt_rn(x);
#else
  return std::sqrt(x);
#endif
}

// The sum of a number of each of N lanes, the same in all.
template <int N>
__device__ __forceinline__ float add_lanes(float x) {
#pragma unroll
  for (int d = N / 2; d; d /= 2) x = fadd(x, __shfl_xor_sync(0xFFFFFFFFu, x, d));
  return x;
}

template <int In>
MX_HD float add_squares(float sum, u32 word) {
  const float lo = half_of<In>(word, 0), hi = half_of<In>(word, 1);
  return ffma(hi, hi, ffma(lo, lo, sum));  // of exact squares
}

// Both elements of a word.
template <int In>
MX_HD u32 normalize(u32 x, float r, u32 weight) {
  const float lo = fmul(half_of<In>(x, 0), r), hi = fmul(half_of<In>(x, 1), r);
  if (In == BFLOAT16) return mul_bf16x2(pack_bf16x2(lo, hi), weight);
  const u32 y = pack_f16x2(lo, hi);
  return pack_f16x2(fmul(half_of<In>(y, 0), half_of<In>(weight, 0)), fmul(half_of<In>(y, 1), half_of<In>(weight, 1)));
}

// A thread's words of a segment into shared memory, zeros behind a row's end. They need no registers on their way, so that many rows are.
__device__ __forceinline__ void copy_part(const uint4* x, u32 first, u32 words, uint4* row) {
#pragma unroll
  for (u32 i = 0; i < kHeld; ++i) {
    const u32 own = i * MX_THREADS + threadIdx.x, at = first + own;
#if MX_CHIP
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 ::"r"((u32)__cvta_generic_to_shared(row + own)), "l"(x + (at < words ? at : 0)), "r"(at < words ? 16 : 0) : "memory");
#else
    row[own] = at < words ? __ldg(x + at) : make_uint4(0, 0, 0, 0);
#endif
  }
#if MX_CHIP
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// The first seven parameters are every quantizing kernel's: the weight is in place of random words, the bits of eps in place of a seed.
extern "C" __global__ void __launch_bounds__(MX_THREADS, 1280 / MX_THREADS)
quantize_norm(const uint4* __restrict__ x, u8* __restrict__ codes, u8* __restrict__ scales, const float* __restrict__ tensor,
              const uint4* __restrict__ weight, u64 eps, u32 tensor_bits, u32 blocks_per_row, u32 tiles) {
  __shared__ uint4 row[kSegment];
  __shared__ float of_warp[kWarps];
  const u32 words = blocks_per_row * (kBlock / 8), lane = threadIdx.x & 31;
  x += (u64)blockIdx.x * words;
  float sum = 0;
#pragma unroll 1
  for (u32 first = 0; first < words; first += kSegment) {
    copy_part(x, first, words, row);
#pragma unroll
    for (u32 i = 0; i < kHeld; ++i) {
      const uint4 v = row[i * MX_THREADS + threadIdx.x];
      float eight = add_squares<kIn>(add_squares<kIn>(0.0f, v.x), v.y);
      eight = add_squares<kIn>(add_squares<kIn>(eight, v.z), v.w);
      sum = fadd(sum, eight);
    }
  }
  sum = add_lanes<32>(sum);
  if (lane == 0) of_warp[threadIdx.x >> 5] = sum;
  __syncthreads();
  sum = add_lanes<kWarps>(of_warp[lane & (kWarps - 1)]);
  const float r = frcp(square_root(fadd(fdiv(sum, (float)(words * 8)), float_of((u32)eps))));

  // Every layout of scales is a sum of what follows from the row and what follows from the column.
  const u64 block = (u64)blockIdx.x * blocks_per_row;
  if (MX_TILED == 4) scales += (u64)blockIdx.x * 4;
  else if (MX_TILED) scales += tile_offset(blockIdx.x, 0, tiles);
  else scales += block * sizeof(typename Stored<Rules::kScale>::Word);
  codes += block * (kBlock * kBits / 8);
  const Tensor t = Rules::derive_tensor(tensor_value<Rules>(tensor, tensor_bits));
#pragma unroll 1
  for (u32 first = 0; first < words; first += kSegment) {
    if (words > kSegment) copy_part(x, first, words, row);
#pragma unroll
    for (u32 i = 0; i < kHeld; ++i) {
      uint4& v = row[i * MX_THREADS + threadIdx.x];
      const u32 at = first + i * MX_THREADS + threadIdx.x;
      const uint4 w = __ldg(weight + (at < words ? at : 0));
      v = make_uint4(normalize<kIn>(v.x, r, w.x), normalize<kIn>(v.y, r, w.y), normalize<kIn>(v.z, r, w.z), normalize<kIn>(v.w, r, w.w));
    }
    __syncthreads();
    const rows::Arguments a{row - first, codes, scales, blocks_per_row, 0, 0, tiles, 0, 0, 0, 0, 0, 0};
    const u32 end = words - first < kSegment ? words : first + kSegment;
#pragma unroll 1
    for (u32 start = first * 8 / rows::kValues; start < end * 8 / rows::kValues; start += MX_THREADS)
      rows::quantize_turn(a, t, start, end * 8 / rows::kValues);
    if (words > kSegment) __syncthreads();
  }
}
}  // namespace mx
