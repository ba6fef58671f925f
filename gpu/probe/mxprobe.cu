// What this chip does with microscaling numbers: one file, no Python.
//
//   nvcc -O2 -std=c++17 -arch=native mxprobe.cu -o mxprobe && ./mxprobe > chip.json       (or -arch=sm_100a, sm_120a ...)
//   hipcc -O2 -std=c++17 mxprobe.cu -o mxprobe && ./mxprobe > chip.json                   (AMD: casts, FTZ, reciprocal)
//   mxspec attest chip.json
//
// It writes complete answers, not samples: each conversion is run on all 2**32 float32 patterns (or all 65,536 of a 16-bit
// type), and the JSON holds every pattern at which the answer changes, as "pattern:answer" in hex. What the chip lacks is
// left out. Formats with instructions of their own need an architecture-specific target (sm_100a, not sm_100).
//
// The tcgen05 part is compiled for sm_100a, sm_103a, sm_110a and their families, and has never run on a chip. It is asked last,
// checks itself on a known product before it answers, and waits for no longer than a bound; where it fails, the JSON says
// so under "unanswered", and holds no numbers of it.
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

typedef uint32_t u32;
typedef uint64_t u64;

// ---- tcgen05: formats, layout and descriptors ---------------------------------------------------------------------------
// Plain functions: a C++ compiler without CUDA takes this file up to the end of this section, and a test holds them to the tables of
// the PTX ISA 9.1, section 9.7.16 ("TensorCore 5th Generation Family Instructions").

#if defined(__HIP__)
#include <hip/hip_runtime.h>
#endif
#if defined(__CUDACC__) || defined(__HIP__)
#define MX_BOTH __host__ __device__ inline
#else
#define MX_BOTH inline
#endif

struct Number {
  int bits, mantissa, bias;
};
enum Kind { KIND_F16, KIND_TF32, KIND_F8F6F4, KIND_MXF8F6F4, KIND_MXF4, KIND_MXF4NVF4 };
// One form of the instruction. `type`: what the instruction descriptor calls the format. Questions use terms from 2**low to
// 2**high, and in the sum handed on to 2**above; formats of four and six bits have no higher products.
struct Tcgen05 {
  const char* name;
  Kind kind;
  Number number;
  u32 type;
  int k, low, high, above;
};
static const Tcgen05 kTcgen05[] = {
    {"tcgen05.mma.f16.m128n16k16.f32.f16", KIND_F16, {16, 10, 15}, 0, 16, -24, 30, 30},
    {"tcgen05.mma.f16.m128n16k16.f32.bf16", KIND_F16, {16, 7, 127}, 1, 16, -40, 40, 40},
    {"tcgen05.mma.tf32.m128n16k8.f32.tf32", KIND_TF32, {32, 23, 127}, 2, 8, -40, 40, 40},
    {"tcgen05.mma.f8f6f4.m128n16k32.f32.e4m3", KIND_F8F6F4, {8, 3, 7}, 0, 32, -12, 16, 16},
    {"tcgen05.mma.f8f6f4.m128n16k32.f32.e5m2", KIND_F8F6F4, {8, 2, 15}, 1, 32, -24, 30, 30},
    {"tcgen05.mma.f8f6f4.m128n16k32.f32.e2m3", KIND_F8F6F4, {6, 3, 1}, 3, 32, -6, 4, 34},
    {"tcgen05.mma.f8f6f4.m128n16k32.f32.e3m2", KIND_F8F6F4, {6, 2, 3}, 4, 32, -8, 8, 32},
    {"tcgen05.mma.f8f6f4.m128n16k32.f32.e2m1", KIND_F8F6F4, {4, 1, 1}, 5, 32, -2, 4, 38},
    {"tcgen05.mma.mxf8f6f4.m128n16k32.f32.e4m3", KIND_MXF8F6F4, {8, 3, 7}, 0, 32, -12, 16, 16},
    {"tcgen05.mma.mxf8f6f4.m128n16k32.f32.e5m2", KIND_MXF8F6F4, {8, 2, 15}, 1, 32, -24, 30, 30},
    {"tcgen05.mma.mxf8f6f4.m128n16k32.f32.e2m3", KIND_MXF8F6F4, {6, 3, 1}, 3, 32, -6, 4, 34},
    {"tcgen05.mma.mxf8f6f4.m128n16k32.f32.e3m2", KIND_MXF8F6F4, {6, 2, 3}, 4, 32, -8, 8, 32},
    {"tcgen05.mma.mxf8f6f4.m128n16k32.f32.e2m1", KIND_MXF8F6F4, {4, 1, 1}, 5, 32, -2, 4, 38},
    {"tcgen05.mma.mxf4.m128n16k64.f32.e2m1", KIND_MXF4, {4, 1, 1}, 1, 64, -2, 4, 38},
    {"tcgen05.mma.mxf4nvf4.m128n16k64.f32.e2m1", KIND_MXF4NVF4, {4, 1, 1}, 1, 64, -2, 4, 38},
};
enum { MOST_K = 64, TILE_M = 128, TILE_N = 16, A_BYTES = TILE_M * 32, B_BYTES = TILE_N * 32 };

MX_BOTH u32 encode_power(Number n, int e) {
  const int field = e + n.bias;
  return field > 0 ? (u32)field << n.mantissa : 1u << (n.mantissa - 1 + field);  // below 2**(1 - bias): a subnormal
}
MX_BOTH u32 sign_bit(Number n) { return 1u << (n.bits - 1); }
// One of 0, 1, 2, 3, 4, 6 and their negatives, which every format has.
MX_BOTH u32 encode_integer(Number n, int v) {
  const int a = v < 0 ? -v : v;
  if (a == 0) return 0;
  const int e = a >= 4 ? 2 : a >= 2;
  return encode_power(n, e) | (a & (a - 1) ? 1u << (n.mantissa - 1) : 0u) | (v < 0 ? sign_bit(n) : 0u);
}

MX_BOTH bool is_scaled(Kind kind) { return kind >= KIND_MXF8F6F4; }
MX_BOTH bool is_packed(Kind kind) { return kind >= KIND_MXF4; }
// Elements in 16 bytes: numbers of four and six bits start where sixteen of them have as many bytes as sixteen of eight bits,
// with a gap behind, but in the kinds mxf4 and mxf4nvf4, where they are packed.
MX_BOTH int count_in_16_bytes(Kind kind, Number n) { return n.bits >= 8 || is_packed(kind) ? 128 / n.bits : 16; }
// K-major without swizzling: eight rows of 16 bytes follow each other; the next 16 bytes along k are LEADING further, the
// next eight rows STRIDE further. An instruction reads 32 bytes of a row.
enum { LEADING = 128, STRIDE = 256 };
MX_BOTH int find_bit(Kind kind, Number n, int row, int i) {
  const int each = count_in_16_bytes(kind, n);
  return 8 * (row / 8 * STRIDE + i / each * LEADING + row % 8 * 16) + i % each * n.bits;
}
MX_BOTH void put_bits(unsigned char* bytes, int at, int bits, u32 raw) {
  for (int b = 0; b < bits; ++b)
    if (raw >> b & 1) bytes[(at + b) / 8] |= (unsigned char)(1u << ((at + b) % 8));
}

// Bits 0-13 address, 16-29 leading dimension's offset, 32-45 stride dimension's offset (all in 16 bytes), 46-48 the constant 1;
// no base offset, relative, no swizzling.
MX_BOTH u64 describe_matrix(u32 address) {
  return (u64)((address & 0x3FFFFu) >> 4) | (u64)(LEADING >> 4) << 16 | (u64)(STRIDE >> 4) << 32 | 1ull << 46;
}
// Dense, nothing negated, both operands K-major. Scale factors: data of the first byte, UE8M0 or (mxf4nvf4) UE4M3.
MX_BOTH u32 describe_instruction(Kind kind, u32 type) {
  const u32 both = type << 7 | type << 10 | (u32)(TILE_N >> 3) << 17;
  if (!is_scaled(kind)) return both | 1u << 4 | (u32)(TILE_M >> 4) << 24;  // the sum is float32
  return both | (u32)(TILE_M >> 7) << 27 | (kind == KIND_MXF4NVF4 ? 0u : 1u << 23);
}
// Four scale factors of 1.
MX_BOTH u32 scale_word(Kind kind) { return kind == KIND_MXF4NVF4 ? 0x38383838u : 0x7F7F7F7Fu; }

// The known product: small integers at every place, results that all differ, C what is missing to them.
MX_BOTH int known_input(int side, int row, int i) {
  u32 h = (u32)((side * TILE_M + row) * MOST_K + i + 1) * 2654435761u;
  h = (h ^ h >> 15) * 2246822519u;
  const int size = (int)((h ^ h >> 13) >> 3) % 6;
  return (h & 1u << 30 ? -1 : 1) * (size == 5 ? 6 : size);
}
MX_BOTH int known_answer(int row, int column) { return row * TILE_N + column - 1000; }
MX_BOTH int known_addend(int row, int column, int k) {
  int sum = known_answer(row, column);
  for (int i = 0; i < k; ++i) sum -= known_input(0, row, i) * known_input(1, column, i);
  return sum;
}

#if defined(__CUDACC__) || defined(__HIP__)

#if defined(__HIP__)
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
#if defined(__CUDA_ARCH_FEAT_SM100_ALL) || defined(__CUDA_ARCH_FEAT_SM103_ALL) || defined(__CUDA_ARCH_FEAT_SM110_ALL)
#define HAS_TCGEN05 1
#elif defined(__CUDA_ARCH_FAMILY_SPECIFIC__) && ARCH >= 1000 && ARCH < 1200
#define HAS_TCGEN05 1
#else
#define HAS_TCGEN05 0
#endif
#if defined(__CUDA_ARCH_FEAT_SM100_ALL) || defined(__CUDA_ARCH_FEAT_SM103_ALL)
#define HAS_RS 1
#else
#define HAS_RS 0
#endif

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
// stand at place 0 and `minus_at`; minus_at < 0: the big term is C and the negative one comes with a second mma. 2**t is a
// product of two powers; the unit is 2**low so that t reaches far in narrow formats.
template <int most_k, class Asked>
__device__ __forceinline__ void ask_places(Asked& asked, int k, int minus_at, int low, int high, int* out) {
  for (int place = 0; place < k; ++place) {
    int kept = -1;
    if (place == 0 || place == minus_at) {
      if (threadIdx.x == 0) out[place] = -1;
      continue;
    }
    for (int t = 0; t <= high - low; ++t) {
      u32 a[most_k], b[most_k];
      for (int i = 0; i < most_k; ++i) a[i] = b[i] = 0;
      const int half = low / 2, big = low + t, up = big >> 1;
      a[place] = asked.power(half), b[place] = asked.power(low - half);
      float c = 0, result;
      if (minus_at >= 0) {
        a[0] = asked.power(up), b[0] = asked.power(big - up);
        a[minus_at] = asked.minus(a[0]), b[minus_at] = b[0];
        result = asked.product(a, b, 0.0f);
      } else {
        c = ldexpf(1.0f, big);
        result = asked.product(a, b, c) - c;
      }
      if (result == ldexpf(1.0f, low)) kept = t;
      else break;
    }
    if (threadIdx.x == 0) out[place] = kept;
  }
}

struct AskedOfWarps {
  Mma mma;
  __device__ u32 power(int e) const { return ::power(mma.element, e); }
  __device__ u32 minus(u32 raw) const { return ::minus(mma.element, raw); }
  __device__ float product(const u32* a, const u32* b, float c) const { return product00(mma, a, b, c); }
};

__global__ void bits_kept(int number, int minus_at, int* out) {
  const Mma mma = kDeviceMma[number];
  const Element kind = mma.element;
  if (threadIdx.x == 0 && !has_mma(mma)) out[0] = -2;
  if (!has_mma(mma)) return;
  const int low = kind == OF_E4M3 ? -12 : kind == OF_E5M2 || kind == OF_F16 ? -24 : -40;
  const int high = kind == OF_E4M3 ? 16 : kind == OF_E5M2 || kind == OF_F16 ? 30 : 40;
  AskedOfWarps asked{mma};
  ask_places<32>(asked, mma.k, minus_at, low, high, out);
}

// ---- tcgen05: the same questions ----------------------------------------------------------------------------------------

enum Standing { ABSENT, ANSWERED, LATE, WRONG };
struct Tcgen05Answer {
  int standing;
  int different, row, column, want;  // of the known product: how many of its elements differ, and one of them
  float got;
  int kept[3][MOST_K];  // minus last, minus second, accumulator
};

#if HAS_TCGEN05
// Tensor memory: the sum in columns 0 to 15, scale factors of A from column 32 and of B from column 48.
enum { COLUMNS = 64, SCALES_A = 32, SCALES_B = 48 };
struct Tcgen05Room {
  alignas(128) unsigned char a[A_BYTES], b[B_BYTES];
  u64 barrier;
  u32 columns;
  float answer;
};

__device__ __forceinline__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

// 16 columns of this warp's 32 lanes of tensor memory; every thread has one lane's.
__device__ __forceinline__ void store_lane(u32 columns, const u32 (&v)[16]) {
  asm volatile("tcgen05.st.sync.aligned.32x32b.x16.b32 [%0], {%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16};"
               :: "r"(columns + (threadIdx.x / 32 * 32 << 16)), "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3]), "r"(v[4]), "r"(v[5]),
               "r"(v[6]), "r"(v[7]), "r"(v[8]), "r"(v[9]), "r"(v[10]), "r"(v[11]), "r"(v[12]), "r"(v[13]), "r"(v[14]), "r"(v[15])
               : "memory");
  asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void load_lane(u32 columns, u32 (&v)[16]) {
  // One statement: no use of the registers may come between the load and its end.
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x16.b32 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, [%16];"
               " tcgen05.wait::ld.sync.aligned;"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]), "=r"(v[4]), "=r"(v[5]), "=r"(v[6]), "=r"(v[7]), "=r"(v[8]),
                 "=r"(v[9]), "=r"(v[10]), "=r"(v[11]), "=r"(v[12]), "=r"(v[13]), "=r"(v[14]), "=r"(v[15])
               : "r"(columns + (threadIdx.x / 32 * 32 << 16)) : "memory");
}

// One thread's: D += A B, and the barrier when that is done.
__device__ __forceinline__ void issue(Kind kind, u32 sum, u64 a, u64 b, u32 instruction, u32 scales_a, u32 scales_b, u32 barrier) {
#define MX_TCGEN05_MMA(text)                                                                                             \
  asm volatile("{.reg .pred p; setp.ne.b32 p, 1, 0; tcgen05.mma.cta_group::1." text " [%0], %1, %2, %3, p;}"            \
               :: "r"(sum), "l"(a), "l"(b), "r"(instruction) : "memory")
#define MX_TCGEN05_SCALED(text)                                                                                          \
  asm volatile("{.reg .pred p; setp.ne.b32 p, 1, 0; tcgen05.mma.cta_group::1." text " [%0], %1, %2, %3, [%4], [%5], p;}" \
               :: "r"(sum), "l"(a), "l"(b), "r"(instruction), "r"(scales_a), "r"(scales_b) : "memory")
  if (kind == KIND_F16) MX_TCGEN05_MMA("kind::f16");
  if (kind == KIND_TF32) MX_TCGEN05_MMA("kind::tf32");
  if (kind == KIND_F8F6F4) MX_TCGEN05_MMA("kind::f8f6f4");
  if (kind == KIND_MXF8F6F4) MX_TCGEN05_SCALED("kind::mxf8f6f4.block_scale.block32");
  if (kind == KIND_MXF4) MX_TCGEN05_SCALED("kind::mxf4.block_scale.block32");
  if (kind == KIND_MXF4NVF4) MX_TCGEN05_SCALED("kind::mxf4nvf4.block_scale.block16");
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" :: "r"(barrier) : "memory");
}

struct AskedOfTcgen05 {
  Tcgen05 unit;
  Tcgen05Room* room;
  u32 parity;
  bool late;

  __device__ u32 power(int e) const { return encode_power(unit.number, e); }
  __device__ u32 minus(u32 raw) const { return raw | sign_bit(unit.number); }

  // The operands lie in the room; every thread gives its row of C and gets its row of D. False: it took too long.
  __device__ bool multiply(const float (&c)[TILE_N], float (&d)[TILE_N]) {
    u32 v[16];
    for (int i = 0; i < 16; ++i) v[i] = as_bits(c[i]);
    store_lane(room->columns, v);
    asm volatile("fence.proxy.async;" ::: "memory");  // tcgen05 reads shared memory past the threads' own view of it
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    __syncthreads();
    const u32 barrier = shared_address(&room->barrier);
    if (threadIdx.x == 0) {
      asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
      issue(unit.kind, room->columns, describe_matrix(shared_address(room->a)), describe_matrix(shared_address(room->b)),
            describe_instruction(unit.kind, unit.type), room->columns + SCALES_A, room->columns + SCALES_B, barrier);
    }
    u32 done = 0;
    const long long start = clock64();
    do {
      asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                   : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
    } while (!done && clock64() - start < 4000000000ll);  // some two seconds
    late = !__syncthreads_and((int)done);
    parity ^= 1;
    if (late) return false;
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    load_lane(room->columns, v);
    for (int i = 0; i < 16; ++i) d[i] = as_float(v[i]);
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    __syncthreads();
    return true;
  }

  __device__ void clear() {
    for (int i = threadIdx.x; i < A_BYTES; i += TILE_M) room->a[i] = 0;
    for (int i = threadIdx.x; i < B_BYTES; i += TILE_M) room->b[i] = 0;
    __syncthreads();
  }

  // A row 0 and B column 0 given, as the other paths have them; D[0][0].
  __device__ float product(const u32* a, const u32* b, float c) {
    if (late) return 0.0f;
    clear();
    if (threadIdx.x == 0)
      for (int i = 0; i < unit.k; ++i) {
        if (a[i]) put_bits(room->a, find_bit(unit.kind, unit.number, 0, i), unit.number.bits, a[i]);
        if (b[i]) put_bits(room->b, find_bit(unit.kind, unit.number, 0, i), unit.number.bits, b[i]);
      }
    float row[TILE_N], d[TILE_N];
    for (int i = 0; i < TILE_N; ++i) row[i] = 0, d[i] = 0;
    if (threadIdx.x == 0) row[0] = c;
    const bool answered = multiply(row, d);
    if (threadIdx.x == 0) room->answer = answered ? d[0] : 0.0f;
    __syncthreads();
    return room->answer;
  }

  // Whether any element of the known product differs; each thread compares its row.
  __device__ bool differs_from_known(Tcgen05Answer* answer) {
    clear();
    const int row = (int)threadIdx.x;
    for (int i = 0; i < unit.k; ++i) {
      put_bits(room->a, find_bit(unit.kind, unit.number, row, i), unit.number.bits, encode_integer(unit.number, known_input(0, row, i)));
      if (row < TILE_N)
        put_bits(room->b, find_bit(unit.kind, unit.number, row, i), unit.number.bits, encode_integer(unit.number, known_input(1, row, i)));
    }
    float c[TILE_N], d[TILE_N];
    for (int j = 0; j < TILE_N; ++j) c[j] = (float)known_addend(row, j, unit.k), d[j] = 0;
    if (!multiply(c, d)) return false;
    bool differs = false;
    for (int j = 0; j < TILE_N; ++j)
      if (!(d[j] == (float)known_answer(row, j))) {
        differs = true;
        if (atomicAdd(&answer->different, 1) == 0)
          answer->row = row, answer->column = j, answer->got = d[j], answer->want = known_answer(row, j);
      }
    return __syncthreads_or(differs);
  }
};
#endif

__global__ void __launch_bounds__(TILE_M) ask_tcgen05(Tcgen05 unit, Tcgen05Answer* answer) {
#if HAS_TCGEN05
  __shared__ Tcgen05Room room;
  if (threadIdx.x < 32) {  // one warp takes tensor memory, and gives it back
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;"
                 :: "r"(shared_address(&room.columns)), "r"((u32)COLUMNS) : "memory");
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::: "memory");
  }
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(shared_address(&room.barrier)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
  __syncthreads();
  asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
  if (is_scaled(unit.kind)) {  // ones in every lane, wherever the instruction looks for a row's
    u32 ones[16];
    for (int i = 0; i < 16; ++i) ones[i] = scale_word(unit.kind);
    store_lane(room.columns + SCALES_A, ones);
    store_lane(room.columns + SCALES_B, ones);
  }
  AskedOfTcgen05 asked{unit, &room, 0, false};
  const bool wrong = asked.differs_from_known(answer);
  if (!asked.late && !wrong) {
    ask_places<MOST_K>(asked, unit.k, unit.k - 1, unit.low, unit.high, answer->kept[0]);
    ask_places<MOST_K>(asked, unit.k, 1, unit.low, unit.high, answer->kept[1]);
    ask_places<MOST_K>(asked, unit.k, -1, unit.low, unit.above, answer->kept[2]);
  }
  if (threadIdx.x == 0) answer->standing = asked.late ? LATE : wrong ? WRONG : ANSWERED;
  asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
  __syncthreads();
  if (threadIdx.x < 32)
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" :: "r"(room.columns), "r"((u32)COLUMNS) : "memory");
#endif
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

#if MX_NVIDIA
// Why a form of tcgen05.mma gave no numbers; nothing if it did, or if this program's target has no such instruction.
struct Tcgen05Reply {
  Tcgen05Answer answer;
  std::string why;
};

// No call of this function waits for longer than a minute, whatever the chip does.
static Tcgen05Reply ask_tcgen05_form(const Tcgen05& unit) {
  Tcgen05Reply reply;
  std::memset(&reply.answer, 0, sizeof reply.answer);
  Tcgen05Answer* place = nullptr;
  cudaError_t error = cudaMalloc((void**)&place, sizeof *place);
  if (error == cudaSuccess) error = cudaMemset(place, 0, sizeof *place);
  if (error == cudaSuccess) {
    ask_tcgen05<<<1, TILE_M>>>(unit, place);
    error = cudaGetLastError();
  }
  const auto start = std::chrono::steady_clock::now();
  while (error == cudaSuccess && (error = cudaStreamQuery(0)) == cudaErrorNotReady) {
    if (std::chrono::steady_clock::now() - start > std::chrono::minutes(1)) {
      reply.why = "the kernel did not end within a minute";
      return reply;
    }
    error = cudaSuccess;
  }
  if (error == cudaSuccess) error = cudaMemcpy(&reply.answer, place, sizeof reply.answer, cudaMemcpyDeviceToHost);
  if (error == cudaSuccess) error = cudaFree(place);
  const Tcgen05Answer& a = reply.answer;
  char text[200] = "";
  if (error != cudaSuccess)
    std::snprintf(text, sizeof text, "the kernel ended with: %s", cudaGetErrorString(error));
  else if (a.standing == LATE)
    std::snprintf(text, sizeof text, "an instruction did not end within its time");
  else if (a.standing == WRONG)
    std::snprintf(text, sizeof text, "the known product is not exact: %d of %d elements differ, such as row %d, column %d: %.9g, not %d",
                  a.different, TILE_M * TILE_N, a.row, a.column, (double)a.got, a.want);
  reply.why = text;
  return reply;
}
#endif

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
  std::printf(" \"stochastic\": {");
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
  std::printf("},\n");
  std::printf(" \"bits_kept\": {");
  std::string unanswered;
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
  // Last, as an error in what has never run ends all work on the GPU.
  bool broken = false;
  for (const Tcgen05& unit : kTcgen05) {
    Tcgen05Reply reply;
    if (broken)
      reply.why = "not asked: a form before it did not end in order";
    else
      reply = ask_tcgen05_form(unit);
    if (!reply.why.empty()) {
      unanswered += (unanswered.empty() ? "\n  \"" : ",\n  \"") + std::string(unit.name) + "\": \"" + reply.why + "\"";
      broken = broken || reply.answer.standing == ABSENT || reply.answer.standing == LATE;
    } else if (reply.answer.standing == ANSWERED) {
      std::string lists[3];
      for (int mode = 0; mode < 3; ++mode)
        lists[mode] = join_ints(std::vector<int>(reply.answer.kept[mode], reply.answer.kept[mode] + unit.k), unit.k);
      std::printf("%s\n  \"%s\": {\"minus_last\": %s, \"minus_second\": %s, \"accumulator\": %s, \"asked_up_to\": [%d, %d]}",
                  comma ? "," : "", unit.name, lists[0].c_str(), lists[1].c_str(), lists[2].c_str(), unit.high - unit.low,
                  unit.above - unit.low);
      comma = true;
    }
  }
#endif
  std::printf("\n },\n \"unanswered\": {%s}\n}\n", unanswered.c_str());
  std::fflush(stdout);
#if MX_NVIDIA
  if (broken) std::_Exit(0);  // leaving in order would wait for the GPU
#endif
  return 0;
}

#endif  // CUDA or HIP
