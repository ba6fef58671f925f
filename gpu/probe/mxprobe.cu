// What this chip does with microscaling numbers: one file, no Python.
//
//   nvcc -O2 -std=c++17 -arch=native mxprobe.cu -o mxprobe && ./mxprobe > chip.json       (or -arch=sm_100a, sm_120a ...)
//   hipcc -O2 -std=c++17 mxprobe.cu -o mxprobe && ./mxprobe > chip.json                   (AMD: casts, FTZ, reciprocal)
//   mxspec attest chip.json
//
// It writes complete answers, not samples: each conversion is run on all 2**32 float32 patterns (or all 65,536 of a 16-bit
// type), and the JSON holds every pattern at which the answer changes, as "pattern:answer" in hex. What the chip lacks is
// left out. Formats with instructions of their own need an architecture-specific target (sm_100a, not sm_100).
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#if defined(__HIP__)
#include <hip/hip_runtime.h>
#define cudaMalloc hipMalloc
#define cudaMemset hipMemset
#define cudaMemcpy hipMemcpy
#define cudaMemcpyDeviceToHost hipMemcpyDeviceToHost
#define cudaMemcpyHostToDevice hipMemcpyHostToDevice
#define cudaDeviceSynchronize hipDeviceSynchronize
#define cudaGetErrorString hipGetErrorString
#define cudaGetDeviceProperties hipGetDeviceProperties
#define cudaDeviceProp hipDeviceProp_t
#define cudaFree hipFree
#define cudaError_t hipError_t
#define cudaSuccess hipSuccess
#define cudaGetLastError hipGetLastError
#define cudaDriverGetVersion hipDriverGetVersion
#define cudaRuntimeGetVersion hipRuntimeGetVersion
#define MX_NVIDIA 0
#else
#define MX_NVIDIA 1
#endif

#if MX_NVIDIA && defined(__CUDA_ARCH__)
#define ARCH __CUDA_ARCH__
#else
#define ARCH 0
#endif
#if defined(__CUDA_ARCH_FEAT_SM100_ALL) || defined(__CUDA_ARCH_FEAT_SM103_ALL) || defined(__CUDA_ARCH_FEAT_SM120_ALL)
#define HAS_FP4 1
#else
#define HAS_FP4 0
#endif
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define HAS_WGMMA 1
#else
#define HAS_WGMMA 0
#endif
#if defined(__CUDA_ARCH_FEAT_SM100_ALL) || defined(__CUDA_ARCH_FEAT_SM103_ALL)
#define HAS_RS 1
#else
#define HAS_RS 0
#endif

typedef uint32_t u32;
typedef uint64_t u64;

static void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "mxprobe: %s: %s\n", what, cudaGetErrorString(error));
  std::exit(2);
}

__device__ __forceinline__ float as_float(u32 b) {
  float f;
  memcpy(&f, &b, 4);
  return f;
}
__device__ __forceinline__ u32 as_bits(float f) {
  u32 b;
  memcpy(&b, &f, 4);
  return b;
}

// ---- Conversions: pattern -> code ------------------------------------------------------------------------------------

enum Conversion {
  E4M3, E5M2, E2M1, E2M3, E3M2, E8M0_RZ, E8M0_RP, E4M3_F16, E5M2_F16, FLOAT16, BFLOAT16, CONVERSIONS
};
static const char* const kName[CONVERSIONS] = {
    "cvt.rn.satfinite.e4m3x2.f32", "cvt.rn.satfinite.e5m2x2.f32", "cvt.rn.satfinite.e2m1x2.f32",
    "cvt.rn.satfinite.e2m3x2.f32", "cvt.rn.satfinite.e3m2x2.f32", "cvt.rz.satfinite.ue8m0x2.f32",
    "cvt.rp.satfinite.ue8m0x2.f32", "cvt.rn.satfinite.e4m3x2.f16x2", "cvt.rn.satfinite.e5m2x2.f16x2",
    "cvt.rn.f16.f32", "cvt.rn.bf16.f32"};
// float16 and bfloat16 change with almost every pattern: they are compared here with the rounding computed from the bits.
static const bool kIsCast[CONVERSIONS] = {false, false, false, false, false, false, false, false, false, true, true};

#if MX_NVIDIA
#define CVT16(text)                                                           \
  {                                                                           \
    unsigned short r;                                                         \
    asm("cvt." text ".f32 %0, %1, %1;" : "=h"(r) : "f"(as_float(pattern)));   \
    return r & 0xFFu;                                                         \
  }
#endif

__device__ bool has_conversion(int c) {
#if MX_NVIDIA
  if (c == E4M3 || c == E5M2 || c == E4M3_F16 || c == E5M2_F16) return ARCH >= 890;
  if (c == FLOAT16) return true;
  if (c == BFLOAT16) return ARCH >= 800;
  return HAS_FP4;
#else
  return false;
#endif
}

__device__ u32 convert(int c, u32 pattern) {
#if MX_NVIDIA
  switch (c) {
#if ARCH >= 890
    case E4M3: CVT16("rn.satfinite.e4m3x2")
    case E5M2: CVT16("rn.satfinite.e5m2x2")
    case E4M3_F16: {
      unsigned short r;
      asm("cvt.rn.satfinite.e4m3x2.f16x2 %0, %1;" : "=h"(r) : "r"((pattern & 0xFFFFu) | pattern << 16));
      return r & 0xFFu;
    }
    case E5M2_F16: {
      unsigned short r;
      asm("cvt.rn.satfinite.e5m2x2.f16x2 %0, %1;" : "=h"(r) : "r"((pattern & 0xFFFFu) | pattern << 16));
      return r & 0xFFu;
    }
#endif
#if HAS_FP4
    case E2M1: {
      u32 r;
      asm("{.reg .b8 a; cvt.rn.satfinite.e2m1x2.f32 a, %1, %1; mov.b32 %0, {a, a, a, a};}" : "=r"(r) : "f"(as_float(pattern)));
      return r & 0xFu;
    }
    case E2M3: CVT16("rn.satfinite.e2m3x2")
    case E3M2: CVT16("rn.satfinite.e3m2x2")
    case E8M0_RZ: CVT16("rz.satfinite.ue8m0x2")
    case E8M0_RP: CVT16("rp.satfinite.ue8m0x2")
#endif
    case FLOAT16: {
      unsigned short r;
      asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(as_float(pattern)));
      return r;
    }
#if ARCH >= 800
    case BFLOAT16: {
      u32 r;
      asm("cvt.rn.bf16x2.f32 %0, %1, %1;" : "=r"(r) : "f"(as_float(pattern)));
      return r & 0xFFFFu;
    }
#endif
    default: return 0;
  }
#else
  return 0;
#endif
}

// Nearest even from the bits, for the casts.
__host__ __device__ inline u32 round_cast(int c, u32 b) {
  const u32 a = b & 0x7FFFFFFFu;
  if (c == BFLOAT16) return a > 0x7F800000u ? 0x10000u : (b + 0x7FFFu + (b >> 16 & 1)) >> 16;
  const u32 sign = b >> 16 & 0x8000u;
  if (a > 0x7F800000u) return 0x10000u;  // any NaN
  if (a >= 0x47800000u) return sign | 0x7C00u;
  const int field = (int)(a >> 23), e = field < 113 ? 113 : field;
  const u32 significand = (a & 0x7FFFFFu) | (field ? 0x800000u : 0u);
  const int shift = 13 + e - (field ? field : 1);
  if (shift > 25) return sign;
  u32 q = significand >> shift;
  const u32 rest = significand & ((1u << shift) - 1u), half = 1u << (shift - 1);
  if (rest > half || (rest == half && (q & 1))) ++q;
  return sign | ((((u32)(e - 113)) << 10) + q);
}

struct Change {
  u32 pattern, answer;
};
struct Found {
  u32 present;
  u32 count;
  u64 different;
  u32 first[8];
};

__global__ void find_changes(int c, u64 patterns, Change* changes, u32 most, Found* found) {
  const u64 step = (u64)gridDim.x * blockDim.x * 16;
  for (u64 base = ((u64)blockIdx.x * blockDim.x + threadIdx.x) * 16; base < patterns; base += step) {
    if (base == 0) found->present = has_conversion(c);
    if (!has_conversion(c)) return;
    u32 before = base ? convert(c, (u32)(base - 1)) : ~0u;
    for (u32 i = 0; i < 16; ++i) {
      const u32 answer = convert(c, (u32)base + i);
      if (answer != before) {
        const u32 place = atomicAdd(&found->count, 1u);
        if (place < most) changes[place] = {(u32)base + i, answer};
      }
      before = answer;
    }
  }
}

__global__ void compare_cast(int c, Found* found) {
  const u64 step = (u64)gridDim.x * blockDim.x;
  for (u64 p = (u64)blockIdx.x * blockDim.x + threadIdx.x; p < 1ull << 32; p += step) {
    if (p == 0) found->present = has_conversion(c);
    if (!has_conversion(c)) return;
    const u32 got = convert(c, (u32)p), want = round_cast(c, (u32)p);
    const u32 inf = c == FLOAT16 ? 0x7C00u : 0x7F80u;
    if (want == 0x10000u ? (got & 0x7FFFu) <= inf : got != want) {
      const u64 place = atomicAdd((unsigned long long*)&found->different, 1ull);
      if (place < 8) found->first[place] = (u32)p;
    }
  }
}

// ---- The approximate reciprocal --------------------------------------------------------------------------------------

__device__ float rcp_approx(float x) {
#if MX_NVIDIA
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
#else
  return __builtin_amdgcn_rcpf(x);
#endif
}
__device__ float rcp_exact(float x) { return (float)(1.0 / (double)x); }  // 53 bits are enough to round 24 correctly

// Difference to the rounded reciprocal in units of the last place, for significands 1.0 to 2.0.
__global__ void reciprocal_table(signed char* table) {
  for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < 1u << 23; i += gridDim.x * blockDim.x) {
    const float x = as_float(0x3F800000u | i);
    const int d = (int)as_bits(rcp_approx(x)) - (int)as_bits(rcp_exact(x));
    table[i] = (signed char)(d < -127 ? -127 : d > 127 ? 127 : d);
  }
}

// All 2**32 patterns against the table, operands and results below 2**-126 taken as zeros.
__global__ void reciprocal_everywhere(const signed char* table, Found* found) {
  const u64 step = (u64)gridDim.x * blockDim.x;
  for (u64 p = (u64)blockIdx.x * blockDim.x + threadIdx.x; p < 1ull << 32; p += step) {
    const u32 b = (u32)p, a = b & 0x7FFFFFFFu, sign = b & 0x80000000u, got = as_bits(rcp_approx(as_float(b)));
    u32 want;
    if (a > 0x7F800000u) {
      if ((got & 0x7FFFFFFFu) > 0x7F800000u) continue;
      want = 0x7FC00000u;
    } else if (a < 0x00800000u) {
      want = sign | 0x7F800000u;
    } else if (a == 0x7F800000u) {
      want = sign;
    } else {
      want = as_bits(rcp_exact(as_float(a))) + table[a & 0x7FFFFFu];
      want = want < 0x00800000u ? sign : sign | want;
    }
    if (got != want) {
      const u64 place = atomicAdd((unsigned long long*)&found->different, 1ull);
      if (place < 8) found->first[place] = b;
    }
  }
}

// ---- Subnormals ------------------------------------------------------------------------------------------------------

// Products and sums whose operands or results are subnormal, as this compiler translates plain C++ without options.
__global__ void subnormals(const u32* in, u32* out) {
  const float tiny = as_float(in[0]), half = as_float(in[1]), least = as_float(in[2]), large = as_float(in[3]);
  out[0] = as_bits(tiny * half);             // 2**-126 * 0.5
  out[1] = as_bits(least * large);           // 2**-149 * 2**30
  out[2] = as_bits(tiny - least);            // 2**-126 - 2**-149
  out[3] = as_bits(fmaf(tiny, half, least));  // 2**-127 + 2**-149
  out[4] = as_bits(tiny / (large * large));   // 0 or a subnormal
}

#if MX_NVIDIA
__global__ void packed_subnormals(u32* out) {
#if ARCH >= 800
  u32 r;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(0x00800080u), "r"(0x3F003F00u), "r"(0x80008000u));  // 2**-126 * 0.5
  out[0] = r & 0xFFFFu;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(0x04000400u), "r"(0x38003800u));  // 2**-14 * 0.5
  out[1] = r & 0xFFFFu;
#endif
}

// ---- Tensor cores: bits kept in a sum ---------------------------------------------------------------------------------

// D = A B + C of one instruction, A row 0 and B column 0 given; D[0][0] comes back. An instruction path has its own unit:
// on sm_90 FP8 mma.sync is made of half-precision operations, and only wgmma reaches the FP8 unit.
enum Element { OF_F16, OF_BF16, OF_E4M3, OF_E5M2, OF_TF32 };
struct Mma {
  const char* name;
  Element element;
  int k;
  bool wgmma;
};
#define MX_MMAS                                                                                                          \
  {"mma.m16n8k16.f32.f16", OF_F16, 16, false}, {"mma.m16n8k16.f32.bf16", OF_BF16, 16, false},                                  \
      {"mma.m16n8k32.f32.e4m3", OF_E4M3, 32, false}, {"mma.m16n8k32.f32.e5m2", OF_E5M2, 32, false},                            \
      {"mma.m16n8k8.f32.tf32", OF_TF32, 8, false}, {"wgmma.m64n8k16.f32.f16", OF_F16, 16, true},                               \
      {"wgmma.m64n8k16.f32.bf16", OF_BF16, 16, true}, {"wgmma.m64n8k32.f32.e4m3", OF_E4M3, 32, true},                          \
      {"wgmma.m64n8k32.f32.e5m2", OF_E5M2, 32, true}, {"wgmma.m64n8k8.f32.tf32", OF_TF32, 8, true}
enum { MMAS = 10 };
static const Mma kMma[MMAS] = {MX_MMAS};
__constant__ const Mma kDeviceMma[MMAS] = {MX_MMAS};

__device__ bool is_byte(Element e) { return e == OF_E4M3 || e == OF_E5M2; }
__device__ bool has_mma(Mma mma) {
  if (mma.wgmma) return HAS_WGMMA;
  return is_byte(mma.element) ? ARCH >= 890 : ARCH >= 800;
}

// The row of A as the first warp's registers hold it; the first four lanes have its elements.
__device__ void load_row(Element element, const u32* x, u32* r) {
  const u32 lane = threadIdx.x, quad = lane & 3;
  r[0] = r[1] = r[2] = r[3] = 0;
  if (lane >= 4) return;
  if (element == OF_TF32) {  // elements quad, and 4 further
    r[0] = x[quad], r[2] = x[quad + 4];
  } else if (!is_byte(element)) {  // elements 2 quad, 2 quad + 1, and 8 further
    r[0] = x[2 * quad] | x[2 * quad + 1] << 16;
    r[2] = x[2 * quad + 8] | x[2 * quad + 9] << 16;
  } else {  // elements 4 quad .. 4 quad + 3, and 16 further
    for (int i = 0; i < 4; ++i) {
      r[0] |= x[4 * quad + i] << (8 * i);
      r[2] |= x[4 * quad + 16 + i] << (8 * i);
    }
  }
}

// a, b: raw elements of the row and the column, k of them. Thread 0 has the answer.
__device__ float mma00(Element kind, const u32* a, const u32* b, float c) {
  float d[4] = {0, 0, 0, 0};
#if ARCH >= 800
  u32 ra[4], rb[4];
  load_row(kind, a, ra), load_row(kind, b, rb);  // a column of B lies as a row of A does, in two registers
  rb[1] = rb[2];
  const float z = 0.0f, c0 = threadIdx.x == 0 ? c : 0.0f;
#define MX_MMA(text)                                                                                                    \
  asm volatile("mma.sync.aligned." text " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"                     \
               : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])                                                                 \
               : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]), "f"(c0), "f"(z), "f"(z), "f"(z))
  if (kind == OF_F16) MX_MMA("m16n8k16.row.col.f32.f16.f16.f32");
  if (kind == OF_BF16) MX_MMA("m16n8k16.row.col.f32.bf16.bf16.f32");
  if (kind == OF_TF32) MX_MMA("m16n8k8.row.col.f32.tf32.tf32.f32");
#if ARCH >= 890
  if (kind == OF_E4M3) MX_MMA("m16n8k32.row.col.f32.e4m3.e4m3.f32");
  if (kind == OF_E5M2) MX_MMA("m16n8k32.row.col.f32.e5m2.e5m2.f32");
#endif
#endif
  return d[0];
}

// The same by a warpgroup: 128 threads, A in registers, B in shared memory.
__device__ float wgmma00(Element kind, const u32* a, const u32* b, float c) {
  float d[4] = {threadIdx.x == 0 ? c : 0.0f, 0, 0, 0};
#if HAS_WGMMA
  // B's columns are rows of 16 bytes, eight to a core matrix; core matrices follow each other along k.
  __shared__ __align__(128) u32 column[64];
  u32 ra[4];
  load_row(kind, a, ra);
  __syncthreads();
  if (threadIdx.x < 64) column[threadIdx.x] = 0;
  __syncthreads();
  if (threadIdx.x == 0) {
    const int size = is_byte(kind) ? 1 : kind == OF_TF32 ? 4 : 2;
    for (int i = 0; i < 32 / size; ++i) {
      const int at = i * size;
      memcpy(reinterpret_cast<char*>(column) + at / 16 * 128 + at % 16, &b[i], size);
    }
  }
  __syncthreads();
  const u64 start = static_cast<u64>(__cvta_generic_to_shared(column));
  const u64 where = (start & 0x3FFFF) >> 4 | static_cast<u64>(128 >> 4) << 16 | static_cast<u64>(256 >> 4) << 32;
#define MX_WGMMA(text, more)                                                                                             \
  asm volatile("{.reg .pred p; setp.ne.b32 p, 1, 0; fence.proxy.async; wgmma.fence.sync.aligned; wgmma.mma_async.sync.aligned." text \
               " {%0,%1,%2,%3}, {%4,%5,%6,%7}, %8, p, 1, 1" more "; wgmma.commit_group.sync.aligned;"                    \
               " wgmma.wait_group.sync.aligned 0;}"                                                                      \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                          \
               : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "l"(where) : "memory")
  if (kind == OF_F16) MX_WGMMA("m64n8k16.f32.f16.f16", ", 0");
  if (kind == OF_BF16) MX_WGMMA("m64n8k16.f32.bf16.bf16", ", 0");
  if (kind == OF_TF32) MX_WGMMA("m64n8k8.f32.tf32.tf32", "");
  if (kind == OF_E4M3) MX_WGMMA("m64n8k32.f32.e4m3.e4m3", "");
  if (kind == OF_E5M2) MX_WGMMA("m64n8k32.f32.e5m2.e5m2", "");
#endif
  return d[0];
}

// The answer of either, in every thread.
__device__ float product00(Mma mma, const u32* a, const u32* b, float c) {
  __shared__ float answer;
  const float d = mma.wgmma ? wgmma00(mma.element, a, b, c) : mma00(mma.element, a, b, c);
  __syncthreads();
  if (threadIdx.x == 0) answer = d;
  __syncthreads();
  return answer;
}

// The raw element that is 2**e.
__device__ u32 power(Element kind, int e) {
  if (kind == OF_F16) return (u32)(e + 15) << 10;
  if (kind == OF_BF16) return (u32)(e + 127) << 7;
  if (kind == OF_TF32) return (u32)(e + 127) << 23;
  if (kind == OF_E4M3) return (u32)(e + 7) << 3;
  return (u32)(e + 15) << 2;
}
__device__ u32 minus(Element kind, u32 raw) { return raw | (kind == OF_TF32 ? 0x80000000u : is_byte(kind) ? 0x80u : 0x8000u); }

// For each place i of the small term: the largest t for which 2**t + 1 - 2**t, scaled, is still 1 and not 0. Big terms
// stand at place 0 and `minus_at`; minus_at < 0: the big term is C and the negative one comes with a second mma.
__global__ void bits_kept(int number, int minus_at, int* out) {
  const Mma mma = kDeviceMma[number];
  const Element kind = mma.element;
  const int k = mma.k;
  if (threadIdx.x == 0 && !has_mma(mma)) out[0] = -2;
  if (!has_mma(mma)) return;
  // 2**t as a product of two powers; the unit is 2**-low so that t reaches far in narrow formats.
  const int low = kind == OF_E4M3 ? -12 : kind == OF_E5M2 || kind == OF_F16 ? -24 : -40;
  const int high = kind == OF_E4M3 ? 16 : kind == OF_E5M2 || kind == OF_F16 ? 30 : 40;
  for (int place = 0; place < k; ++place) {
    int kept = -1;
    if (place == 0 || place == minus_at) {
      if (threadIdx.x == 0) out[place] = -1;
      continue;
    }
    for (int t = 0; t <= high - low; ++t) {
      u32 a[32], b[32];
      for (int i = 0; i < 32; ++i) a[i] = b[i] = 0;
      const int half = low / 2, big = low + t, up = big >> 1;
      a[place] = power(kind, half), b[place] = power(kind, low - half);
      float c = 0, result;
      if (minus_at >= 0) {
        a[0] = power(kind, up), b[0] = power(kind, big - up);
        a[minus_at] = minus(kind, a[0]), b[minus_at] = b[0];
        result = product00(mma, a, b, 0.0f);
      } else {
        c = ldexpf(1.0f, big);
        result = product00(mma, a, b, c) - c;
      }
      if (result == ldexpf(1.0f, low)) kept = t;
      else break;
    }
    if (threadIdx.x == 0) out[place] = kept;
  }
}

// ---- Stochastic conversion: which random bit serves which element -----------------------------------------------------

// Element e holds 1 + step * (1 - 2**-m); random word 1 << j. Codes of the four elements.
__global__ void stochastic_bits(u32* out) {
#if HAS_RS
  const u32 j = threadIdx.x, m = blockIdx.x;  // 32 bits, m from 0 to 8
  const float x = 1.0f + 0.5f * (1.0f - ldexpf(1.0f, -(int)m));
  u32 r;
  asm("{.reg .b16 d; cvt.rs.satfinite.e2m1x4.f32 d, {%1, %2, %3, %4}, %5; cvt.u32.u16 %0, d;}"
      : "=r"(r) : "f"(x), "f"(x), "f"(x), "f"(x), "r"(1u << j));
  out[m * 32 + j] = r;
#endif
}
__global__ void has_stochastic(u32* out) { *out = HAS_RS; }
#endif

// ---- Report ----------------------------------------------------------------------------------------------------------

static u32 crc32(const void* data, size_t size) {
  u32 crc = ~0u;
  const unsigned char* p = static_cast<const unsigned char*>(data);
  for (size_t i = 0; i < size; ++i) {
    crc ^= p[i];
    for (int b = 0; b < 8; ++b) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0u);
  }
  return ~crc;
}

template <class T>
static T* device_array(size_t n) {
  T* p = nullptr;
  check(cudaMalloc((void**)&p, n * sizeof(T)), "allocating");
  check(cudaMemset(p, 0, n * sizeof(T)), "clearing");
  return p;
}
template <class T>
static std::vector<T> fetch(const T* p, size_t n) {
  std::vector<T> out(n);
  check(cudaDeviceSynchronize(), "running");
  check(cudaMemcpy(out.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost), "reading back");
  return out;
}

static std::string join_ints(const std::vector<int>& v, size_t n) {
  std::string s = "[";
  for (size_t i = 0; i < n; ++i) s += (i ? ", " : "") + std::to_string(v[i]);
  return s + "]";
}

int main() {
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, 0), "looking for a GPU");
  int driver = 0, runtime = 0;
  (void)cudaDriverGetVersion(&driver);
  (void)cudaRuntimeGetVersion(&runtime);
  std::printf("{\n \"schema\": \"mxprobe/1\",\n \"device\": \"%s\",\n \"vendor\": \"%s\",\n", properties.name, MX_NVIDIA ? "nvidia" : "amd");
  std::printf(" \"compute_capability\": \"%d.%d\",\n \"driver\": %d,\n \"runtime\": %d,\n", properties.major, properties.minor, driver, runtime);

  constexpr u32 most = 1u << 13;
  std::printf(" \"conversions\": {");
  bool comma = false;
  for (int c = 0; c < CONVERSIONS; ++c) {
    Found* found = device_array<Found>(1);
    const bool half = c == E4M3_F16 || c == E5M2_F16;
    const u64 patterns = half ? 1ull << 16 : 1ull << 32;
    if (kIsCast[c]) {
      compare_cast<<<1024, 256>>>(c, found);
      check(cudaGetLastError(), "launching");
      const Found f = fetch(found, 1)[0];
      if (f.present) {
        std::printf("%s\n  \"%s\": {\"inputs\": %llu, \"different_from_nearest_even\": %llu}", comma ? "," : "", kName[c],
                    (unsigned long long)patterns, (unsigned long long)f.different);
        comma = true;
      }
    } else {
      Change* changes = device_array<Change>(most);
      find_changes<<<2048, 256>>>(c, patterns, changes, most, found);
      check(cudaGetLastError(), "launching");
      const Found f = fetch(found, 1)[0];
      if (f.present && f.count <= most) {
        std::vector<Change> v = fetch(changes, f.count);
        for (size_t i = 1; i < v.size(); ++i)
          for (size_t j = i; j && v[j - 1].pattern > v[j].pattern; --j) std::swap(v[j - 1], v[j]);
        std::printf("%s\n  \"%s\": {\"inputs\": %llu, \"runs\": \"", comma ? "," : "", kName[c], (unsigned long long)patterns);
        for (size_t i = 0; i < v.size(); ++i) std::printf("%s%08x:%02x", i ? " " : "", v[i].pattern, v[i].answer);
        std::printf("\"}");
        comma = true;
      } else if (f.present) {
        std::printf("%s\n  \"%s\": {\"inputs\": %llu, \"too_many_runs\": %u}", comma ? "," : "", kName[c], (unsigned long long)patterns, f.count);
        comma = true;
      }
      cudaFree(changes);
    }
    cudaFree(found);
  }
  std::printf("\n },\n");

  {
    signed char* table = device_array<signed char>(1u << 23);
    Found* found = device_array<Found>(1);
    reciprocal_table<<<1024, 256>>>(table);
    reciprocal_everywhere<<<2048, 256>>>(table, found);
    check(cudaGetLastError(), "launching");
    const std::vector<signed char> t = fetch(table, 1u << 23);
    const Found f = fetch(found, 1)[0];
    int least = 0, largest = 0;
    u64 below = 0, above = 0;
    for (signed char d : t) {
      least = d < least ? d : least, largest = d > largest ? d : largest;
      below += d < 0, above += d > 0;
    }
    std::printf(" \"reciprocal\": {\"instruction\": \"%s\", \"table_crc32\": \"%08x\", \"least\": %d, \"largest\": %d, \"below\": %llu, \"above\": %llu, "
                "\"inputs\": 4294967296, \"different_from_table\": %llu},\n",
                MX_NVIDIA ? "rcp.approx.ftz.f32" : "v_rcp_f32", crc32(t.data(), t.size()), least, largest, (unsigned long long)below,
                (unsigned long long)above, (unsigned long long)f.different);
  }
  {
    u32 given[4] = {0x00800000u, 0x3F000000u, 0x00000001u, 0x4E800000u};
    u32 *in = device_array<u32>(4), *out = device_array<u32>(8);
    check(cudaMemcpy(in, given, sizeof given, cudaMemcpyHostToDevice), "writing");
    subnormals<<<1, 1>>>(in, out);
    check(cudaGetLastError(), "launching");
    const std::vector<u32> r = fetch(out, 5);
    std::printf(" \"subnormals\": {\"mul\": \"%08x\", \"mul_up\": \"%08x\", \"sub\": \"%08x\", \"fma\": \"%08x\"", r[0], r[1], r[2], r[3]);
#if MX_NVIDIA
    u32* packed = device_array<u32>(2);
    packed_subnormals<<<1, 1>>>(packed);
    check(cudaGetLastError(), "launching");
    const std::vector<u32> p = fetch(packed, 2);
    std::printf(", \"bf16x2\": \"%04x\", \"f16x2\": \"%04x\"", p[0], p[1]);
#endif
    std::printf("},\n");
  }
  std::printf(" \"bits_kept\": {");
#if MX_NVIDIA
  comma = false;
  for (int number = 0; number < MMAS; ++number) {
    const int k = kMma[number].k, threads = kMma[number].wgmma ? 128 : 32;
    int* kept = device_array<int>(32);
    bits_kept<<<1, threads>>>(number, k - 1, kept);
    check(cudaGetLastError(), "launching");
    const std::vector<int> within = fetch(kept, 32);
    if (within[0] == -2) continue;
    bits_kept<<<1, threads>>>(number, 1, kept);
    const std::vector<int> near = fetch(kept, 32);
    bits_kept<<<1, threads>>>(number, -1, kept);
    const std::vector<int> across = fetch(kept, 32);
    std::printf("%s\n  \"%s\": {\"minus_last\": %s, \"minus_second\": %s, \"accumulator\": %s}", comma ? "," : "", kMma[number].name,
                join_ints(within, k).c_str(), join_ints(near, k).c_str(), join_ints(across, k).c_str());
    comma = true;
  }
#endif
  std::printf("\n },\n \"stochastic\": {");
#if MX_NVIDIA
  {
    u32* out = device_array<u32>(9 * 32 + 1);
    has_stochastic<<<1, 1>>>(out + 9 * 32);
    stochastic_bits<<<9, 32>>>(out);
    check(cudaGetLastError(), "launching");
    const std::vector<u32> r = fetch(out, 9 * 32 + 1);
    if (r[9 * 32]) {
      std::printf("\n  \"cvt.rs.satfinite.e2m1x4.f32\": [");
      for (int m = 0; m < 9; ++m) {
        std::printf("%s\n   \"", m ? "," : "");
        for (int j = 0; j < 32; ++j) std::printf("%s%04x", j ? " " : "", r[m * 32 + j]);
        std::printf("\"");
      }
      std::printf("]");
    }
  }
#endif
  std::printf("}\n}\n");
  return 0;
}
