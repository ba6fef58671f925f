// Products of e2m1 codes with block scales and many bfloat16 rows on Hopper: y = alpha * x W^T + bias, sums in float32 by wgmma. W is
// read as a checkpoint has it, row-major; nothing is repacked. A weight times its scale is exact in bfloat16.
//
// W is the instruction's A, decoded into registers; x is its B, in shared memory. A cluster of MX_SPLITS blocks takes one tile of y, each a
// range of columns of W; their sums are added in order, through the cluster's shared memory.
//
// Which of the products of 32 columns meet in one instruction does not matter. So a lane decodes whole words of eight codes, and x is
// brought into the same order first (`order_rows`): of the words 0 to 3 of 32 columns lane t of four has word t; its pair j, the codes j
// and j + 4, meets the chunk j of x. Ordered, x lies as shared memory has it, and one copy brings a stage of it.
//
// One warpgroup loads, the others decode and multiply. Registers: 65536 of a multiprocessor; those that the loading threads give back let
// the others keep all sums and the codes of some products ahead.
//
// Rows of x may belong to experts, each with a W of its own: `offsets` says where each one's rows begin. Expert e has the tiles from
// offsets[e] / MX_TILE + e on, as many as it needs: never more than there are up to the next one's first. So a tile finds its expert by
// bisection, and nothing has to be counted before.
//
// Compiled with: MX_SCALE, MX_BLOCK, MX_OUTPUT, MX_TILE (rows of x of a tile: 16 to 256), MX_GROUPS (warpgroups that multiply: 2 or 4),
// MX_HALVES (1 or 2: 64 rows of W each that such a one has), MX_STAGES, MX_AHEAD (groups of products that go on while the next are
// decoded), MX_SPLITS, MX_HALF (whether the last stage is half of one).
#include "hopper.cuh"
#include "wgmma.generated.cuh"

namespace mx {

constexpr int kColumns = 128;  // of a stage
constexpr int kGroups = MX_GROUPS, kRows = 64 * MX_HALVES * kGroups, kThreads = 128 * (kGroups + 1);
constexpr int kScaleBytes = kColumns / MX_BLOCK;
// Where the last stage is half of one, four scales of a row may begin at two bytes after a word: both words are brought.
constexpr int kScalePitch = MX_HALF ? 8 : kScaleBytes;
constexpr int kBytesX = MX_TILE * kColumns * 2, kBytesW = kRows * kColumns / 2, kBytesS = kRows * kScalePitch;
constexpr int kPitch = kRows + 4;  // floats between rows of sums

struct Stages {
  u8 x[MX_STAGES][kBytesX];
  u8 w[MX_STAGES][kBytesW];
  u8 s[MX_STAGES][kBytesS];
  u64 full[MX_STAGES], empty[MX_STAGES];
};

__device__ __forceinline__ float4 read_of(u32 address, u32 rank) {
  float4 v;
  asm volatile("{.reg .b32 t; mapa.shared::cluster.u32 t, %4, %5; ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [t];}"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(address), "r"(rank));
  return v;
}

// Whether a word of scale bytes holds one that the plain factor does not take alone.
__device__ __forceinline__ bool is_rare(u32 scales) {
  return MX_SCALE == E8M0 ? (scales & 0x80808080u) != 0 : (scales + 0x01010101u & 0x80808080u) != 0;
}
// Twice the bfloat16 that brings magnitudes times 2**-126 to values (of UE4M3 scales: times 2**-8), of byte c of four.
template <bool Rare>
__device__ __forceinline__ u32 factor_of(u32 scales, int c) {
  const u32 byte = permute(scales, 0, 0x4040u + 0x0101u * c);
  if (MX_SCALE == E8M0) return (Rare && (byte & 0xFF) > 127 ? 0x007F007Fu : byte) * 0x80u + 126 * 0x00800080u;
  if (Rare && byte == 0x007F007Fu) return 0x7FC07FC0u;
  return mul_bf16x2(mul_bf16x2(byte * 0x10u, 0x7F007F00u), 0x77007700u);  // 2**127, 2**111
}
// What is left of a rare E8M0 scale.
__device__ __forceinline__ u32 more_of(u32 scales, int c) {
  const u32 byte = scales >> (8 * c) & 0xFF;
  return (byte == 0xFF ? 0x7FC0u : byte > 127 ? byte << 7 : 0x3F80u) * 0x00010001u;
}
// Words of the values of codes (0, 4), (1, 5), (2, 6), (3, 7).
__device__ __forceinline__ void decode_word(u32 codes, u32 factor, u32 w[4]) {
  const u32 upper = codes >> 8;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const u32 pair = (j < 2 ? codes : upper) & (j % 2 ? 0x00F000F0u : 0x000F000Fu);
    w[j] = mul_bf16x2(pair * (j % 2 ? (1u << 8 | 1u << 2) : (1u << 12 | 1u << 6)) & 0x81C081C0u, factor);
  }
}

template <bool Rare>
__device__ __forceinline__ void decode_rows(const u32 codes[2], const u32 scales[2], int c, u32 a[2][4]) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    decode_word(codes[r], factor_of<Rare>(scales[r], c), a[r]);
    if (MX_SCALE == E8M0 && Rare) {
      const u32 more = more_of(scales[r], c);
#pragma unroll
      for (int j = 0; j < 4; ++j) a[r][j] = mul_bf16x2(a[r][j], more);
    }
  }
}

// The first so many of four bytes, then zeros.
__device__ __forceinline__ void copy_word(u8* to, const u8* from, u32 count) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)), "l"(from), "r"(count) : "memory");
}
// The scales of one stage of a row of which `left` follow; none beyond the row is read.
__device__ __forceinline__ void copy_scales(u8* to, const u8* from, u32 left, bool live) {
  if (!MX_HALF) {
    copy_ahead<kScaleBytes>(to, from, live);
  } else if (kScaleBytes == 8) {
    copy_word(to, from, live ? 4 : 0), copy_word(to + 4, left > 4 ? from + 4 : from, live && left > 4 ? 4 : 0);
  } else {
    const u32 odd = (u32)(u64)from & 2;
    const bool more = odd && left > 2;
    copy_word(to, from - odd, !live ? 0 : left > 2 || odd ? 4 : 2), copy_word(to + 4, more ? from + 2 : from - odd, live && more ? 2 : 0);
  }
}

struct Place {
  u32 row, vector, first, last;  // of W, of x, stages
};

// Rows of x that a tile has, and whose they are.
struct Rows {
  u32 expert, first, end;  // no tile: end is not above first
};
__device__ __forceinline__ Rows find_rows(u32 tile, u32 batch, const int* __restrict__ offsets, u32 experts) {
  if (!offsets) return {0, tile * MX_TILE, batch};
  u32 low = 0, high = experts;  // the last expert whose first tile is not beyond this one
  while (high - low > 1) {
    const u32 middle = (low + high) / 2;
    if ((u32)__ldg(offsets + middle) / MX_TILE + middle <= tile) low = middle;
    else high = middle;
  }
  const u32 start = __ldg(offsets + low);
  return {low, start + (tile - (start / MX_TILE + low)) * MX_TILE, (u32)__ldg(offsets + low + 1)};
}

__device__ __forceinline__ void load_stages(Stages& memory, const Place& place, const u8* __restrict__ codes, const u8* __restrict__ scales,
                                            const u8* __restrict__ x, u32 rows, u32 columns) {
  const u32 p = threadIdx.x % 128, chunk = p % 4;
  // 16 bytes of every fourth row of 128.
  const u32 to_w = (p / 4) * 64 + ((chunk ^ (p / 8 & 3)) << 4);
  const u8* from_w = codes + (u64)place.first * 64 + chunk * 16;
  const u8* from_s = scales + (u64)place.first * kScaleBytes;
  const u32 row_codes = columns / 2, row_scales = columns / MX_BLOCK;
  u32 slot = 0, parity = 1;
  // x is there when `order_rows`, beside which this kernel may start, has ended.
  if (p == 0) asm volatile("griddepcontrol.wait;" ::: "memory");
#pragma unroll 1
  for (u32 stage = place.first; stage < place.last; ++stage) {
    wait(&memory.empty[slot], parity);
    if (p == 0) {
      const u32 full = shared_address(&memory.full[slot]);
      asm volatile("{.reg .b64 t; mbarrier.arrive.expect_tx.shared::cta.b64 t, [%0], %1;}" ::"r"(full), "n"(kBytesX) : "memory");
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                   ::"r"(shared_address(memory.x[slot])), "l"(x + (u64)stage * kBytesX), "n"(kBytesX), "r"(full) : "memory");
    }
    const bool within = stage * kColumns + chunk * 32 < columns;
#pragma unroll
    for (int i = 0; i < kRows / 32; ++i) {
      const u32 row = place.row + p / 4 + 32 * i, known = row < rows ? row : rows - 1;
      copy_ahead<16>(memory.w[slot] + to_w + i * 32 * 64, from_w + (u64)known * row_codes, within && row < rows);
    }
#pragma unroll
    for (int i = 0; i < kRows / 128; ++i) {
      const u32 row = place.row + p + 128 * i, known = row < rows ? row : rows - 1;
      copy_scales(memory.s[slot] + (p + 128 * i) * kScalePitch, from_s + (u64)known * row_scales, row_scales - stage * kScaleBytes, row < rows);
    }
    arrive_after_copies(&memory.full[slot]);
    from_w += 64, from_s += kScaleBytes;
    if (++slot == MX_STAGES) slot = 0, parity ^= 1;
  }
}

__device__ __forceinline__ void multiply_stages(Stages& memory, const Place& place, const u8* scale_bytes, u32 row_scales, float (&sums)[MX_HALVES][MX_TILE / 2]) {
  const u32 lane = threadIdx.x % 32, t = lane % 4, g = lane / 4;
  const u32 row = threadIdx.x / 128 * (64 * MX_HALVES) + threadIdx.x % 128 / 32 * 16 + g;
  // Of this lane's first word of a stage, and of its row's scales.
  u32 own_w = row * 64 + t * 4 + ((g >> 1 & 3) << 4), own_s = row * kScalePitch;
  // Which of two words' bytes; rows that are eight apart agree.
  const u32 select = (u32)((u64)scale_bytes + (place.row + row) * row_scales) & 2 ? 0x5432u : 0x3210u;
  asm volatile("" : "+r"(own_w), "+r"(own_s));
  u32 slot = 0, parity = 0, previous = 0;
#pragma unroll 1
  for (u32 stage = place.first; stage < place.last; ++stage) {
    wait(&memory.full[slot], parity);
    const u8* const w = memory.w[slot];
    u32 scales[MX_HALVES][2], codes[kColumns / 32][MX_HALVES][2];
    bool rarely = false;
#pragma unroll
    for (int h = 0; h < MX_HALVES; ++h) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const u8* const s = memory.s[slot] + own_s + (h * 64 + r * 8) * kScalePitch;
        if (kScalePitch == 4) {
          scales[h][r] = *reinterpret_cast<const u32*>(s);
        } else if (kScaleBytes == 4) {
          const uint2 both = *reinterpret_cast<const uint2*>(s);
          scales[h][r] = permute(both.x, both.y, select);
        } else {
          const uint2 both = *reinterpret_cast<const uint2*>(s);
          scales[h][r] = permute(both.x, both.y, t < 2 ? 0x6420u : 0x7531u) & 0x7F7F7F7Fu;
        }
#pragma unroll
        for (int c = 0; c < kColumns / 32; ++c)
          codes[c][h][r] = *reinterpret_cast<const u32*>(w + (own_w ^ c << 4) + (h * 64 + r * 8) * 64);
      }
    }
#pragma unroll
    for (int h = 0; h < MX_HALVES; ++h) rarely |= is_rare(scales[h][0]) | is_rare(scales[h][1]);
    const bool rare = __any_sync(0xFFFFFFFFu, rarely);
    const u64 x = describe_rows(shared_address(memory.x[slot]));
#pragma unroll
    for (int c = 0; c < kColumns / 32; ++c) {
#pragma unroll
      for (int h = 0; h < MX_HALVES; ++h) {
        u32 a[2][4];
        if (rare) decode_rows<true>(codes[c][h], scales[h], c, a);
        else decode_rows<false>(codes[c][h], scales[h], c, a);
        fence_products();
        const u64 at = x + (c / 2 * (MX_TILE * 128) + c % 2 * 64 >> 4);
        multiply_tile(sums[h], a[0][0], a[1][0], a[0][1], a[1][1], at);
        multiply_tile(sums[h], a[0][2], a[1][2], a[0][3], a[1][3], at + 2);
        end_products();
        // Some groups may go on: they read other registers than the next.
        wait_products<MX_AHEAD>();
        if (c * MX_HALVES + h == MX_AHEAD - 1 && stage > place.first) {
          __syncwarp();  // of all lanes' reads of the stage before
          if (lane == 0) arrive(&memory.empty[previous]);
        }
      }
    }
    previous = slot;
    if (++slot == MX_STAGES) slot = 0, parity ^= 1;
  }
  wait_products<0>();
}

// x in the order and place in which `multiply_tiles` has it in shared memory, a stage of a tile after the other; zeros fill both up.
extern "C" __global__ void order_rows(const u16* __restrict__ x, u8* __restrict__ out, const int* __restrict__ offsets, u32 columns,
                                      u32 batch, u32 tiles, u32 experts) {
  const u32 stages = (columns + kColumns - 1) / kColumns;
  const u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
  asm volatile("griddepcontrol.launch_dependents;");
  const u32 group = (u32)(i % (stages * 4)), vector = (u32)(i / (stages * 4)), r = vector % MX_TILE;
  if (vector >= tiles * MX_TILE) return;
  const Rows rows = find_rows(vector / MX_TILE, batch, offsets, experts);
  if (rows.first >= rows.end) return;
  uint4 v[4];
  const bool live = rows.first + r < rows.end && group * 32 < columns;
#pragma unroll
  for (int j = 0; j < 4; ++j)
    v[j] = live ? __ldg(reinterpret_cast<const uint4*>(x + (u64)(rows.first + r) * columns + group * 32) + j) : make_uint4(0, 0, 0, 0);
  const uint4 words[4] = {
      make_uint4(permute(v[0].x, v[0].z, 0x5410), permute(v[1].x, v[1].z, 0x5410), permute(v[2].x, v[2].z, 0x5410), permute(v[3].x, v[3].z, 0x5410)),
      make_uint4(permute(v[0].x, v[0].z, 0x7632), permute(v[1].x, v[1].z, 0x7632), permute(v[2].x, v[2].z, 0x7632), permute(v[3].x, v[3].z, 0x7632)),
      make_uint4(permute(v[0].y, v[0].w, 0x5410), permute(v[1].y, v[1].w, 0x5410), permute(v[2].y, v[2].w, 0x5410), permute(v[3].y, v[3].w, 0x5410)),
      make_uint4(permute(v[0].y, v[0].w, 0x7632), permute(v[1].y, v[1].w, 0x7632), permute(v[2].y, v[2].w, 0x7632), permute(v[3].y, v[3].w, 0x7632))};
  u8* const to = out + ((u64)(vector / MX_TILE) * stages + group / 4) * kBytesX + group % 4 / 2 * (MX_TILE * 128) + r * 128;
#pragma unroll
  for (int j = 0; j < 4; ++j) *reinterpret_cast<uint4*>(to + ((group % 2 * 4 + j ^ r % 8) << 4)) = words[j];
}

extern "C" __global__ void __cluster_dims__(1, 1, MX_SPLITS) __launch_bounds__(kThreads, 1)
multiply_tiles(const u8* __restrict__ codes, const u8* __restrict__ scales, const u8* __restrict__ x, void* __restrict__ y,
               const float* __restrict__ alpha, const void* __restrict__ bias, const int* __restrict__ offsets, u32 alpha_bits, u32 rows,
               u32 columns, u32 batch, u32 experts) {
  extern __shared__ __align__(1024) u8 shared_memory[];
  auto& memory = *reinterpret_cast<Stages*>(shared_memory);
  float* const parts = reinterpret_cast<float*>(shared_memory);
  const u32 stages = (columns + kColumns - 1) / kColumns, split = blockIdx.z;
  const Rows own = find_rows(blockIdx.x, batch, offsets, experts);
  if (own.first >= own.end) return;
  const Place place = {blockIdx.y * kRows, own.first, stages * split / MX_SPLITS, stages * (split + 1) / MX_SPLITS};
  codes += (u64)own.expert * rows * (columns / 2), scales += (u64)own.expert * rows * (columns / MX_BLOCK);
  if (threadIdx.x == 0) {
#pragma unroll
    for (int i = 0; i < MX_STAGES; ++i) init_barrier(&memory.full[i], 129), init_barrier(&memory.empty[i], 4 * kGroups);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x >= 128 * kGroups) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kGroups > 2 ? 32 : 40));
    load_stages(memory, place, codes, scales, x + (u64)blockIdx.x * stages * kBytesX, rows, columns);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kGroups > 2 ? 112 : 232));
    float sums[MX_HALVES][MX_TILE / 2];
#pragma unroll
    for (int h = 0; h < MX_HALVES; ++h) {
#pragma unroll
      for (int i = 0; i < MX_TILE / 2; ++i) sums[h][i] = 0.0f;
    }
    multiply_stages(memory, place, scales, columns / MX_BLOCK, sums);
    // Sums take the place of codes and x, which both warpgroups have read.
    asm volatile("bar.sync 1, %0;" ::"n"(128 * kGroups) : "memory");
    const u32 lane = threadIdx.x % 32;
#pragma unroll
    for (int h = 0; h < MX_HALVES; ++h) {
      float* const to = parts + threadIdx.x / 128 * (64 * MX_HALVES) + h * 64 + threadIdx.x % 128 / 32 * 16 + lane / 4;
#pragma unroll
      for (int i = 0; i < MX_TILE / 2; ++i) to[(i / 4 * 8 + lane % 4 * 2 + i % 2) * kPitch + i % 4 / 2 * 8] = sums[h][i];
    }
  }
  meet_cluster();
  const u32 rank = MX_SPLITS > 1 ? rank_in_cluster() : 0;
  const float factor = alpha ? alpha[own.expert] : float_of(alpha_bits);
  constexpr u32 kQuads = kRows / 4, kMine = MX_TILE / MX_SPLITS;
  for (u32 i = threadIdx.x; i < kMine * kQuads; i += kThreads) {
    const u32 vector = rank * kMine + i / kQuads, row = place.row + i % kQuads * 4;
    const float* const sums = parts + vector * kPitch + i % kQuads * 4;
    const u32 from = shared_address(sums);
    if (place.vector + vector >= own.end || row >= rows) continue;
    float4 sum = MX_SPLITS > 1 ? read_of(from, 0) : *reinterpret_cast<const float4*>(sums);
#pragma unroll
    for (int s = 1; s < MX_SPLITS; ++s) {
      const float4 part = read_of(from, s);
      sum = make_float4(fadd(sum.x, part.x), fadd(sum.y, part.y), fadd(sum.z, part.z), fadd(sum.w, part.w));
    }
    float v[4] = {sum.x, sum.y, sum.z, sum.w};
    const u64 at = (u64)(place.vector + vector) * rows + row;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      v[j] = fmul(MX_SCALE == UE4M3 ? fmul(v[j], 256.0f) : v[j], factor);
      const u64 b = (u64)own.expert * rows + row + j;
      if (bias && row + j < rows) v[j] = fadd(v[j], MX_OUTPUT == FLOAT32 ? static_cast<const float*>(bias)[b] : from_bf16(static_cast<const u16*>(bias)[b]));
    }
    if (rows % 4 == 0) {
      if (MX_OUTPUT == FLOAT32) *reinterpret_cast<float4*>(static_cast<float*>(y) + at) = make_float4(v[0], v[1], v[2], v[3]);
      else *reinterpret_cast<uint2*>(static_cast<u16*>(y) + at) = make_uint2(pack_bf16x2(v[0], v[1]), pack_bf16x2(v[2], v[3]));
    } else {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (row + j < rows) store_output<MX_OUTPUT>(y, at + j, v[j]);
      }
    }
  }
  // No block leaves while others read its sums.
  meet_cluster();
}
}  // namespace mx
