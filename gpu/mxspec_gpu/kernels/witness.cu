// What the chip itself answers: one instruction over consecutive float32 (or 16-bit) bit patterns.
// No arithmetic of ours; flush-to-zero flags of the compiler cannot touch inline PTX.

extern "C" __global__ void rcp_approx_ftz(unsigned first, unsigned count, unsigned* out) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  unsigned bits;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(*reinterpret_cast<float*>(&bits)) : "f"(__uint_as_float(first + i)));
  out[i] = bits;
}

extern "C" __global__ void cvt_e4m3(unsigned first, unsigned count, unsigned char* out) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  unsigned short pair;
  const float x = __uint_as_float(first + i);
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %1;" : "=h"(pair) : "f"(x));
  out[i] = static_cast<unsigned char>(pair & 0xFF);
}

extern "C" __global__ void cvt_e5m2(unsigned first, unsigned count, unsigned char* out) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  unsigned short pair;
  const float x = __uint_as_float(first + i);
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %1;" : "=h"(pair) : "f"(x));
  out[i] = static_cast<unsigned char>(pair & 0xFF);
}

extern "C" __global__ void cvt_f16_e4m3(unsigned first, unsigned count, unsigned char* out) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  unsigned short pair;
  const unsigned both = ((first + i) & 0xFFFFu) | (first + i) << 16;
  asm("cvt.rn.satfinite.e4m3x2.f16x2 %0, %1;" : "=h"(pair) : "r"(both));
  out[i] = static_cast<unsigned char>(pair & 0xFF);
}

extern "C" __global__ void cvt_f16_e5m2(unsigned first, unsigned count, unsigned char* out) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  unsigned short pair;
  const unsigned both = ((first + i) & 0xFFFFu) | (first + i) << 16;
  asm("cvt.rn.satfinite.e5m2x2.f16x2 %0, %1;" : "=h"(pair) : "r"(both));
  out[i] = static_cast<unsigned char>(pair & 0xFF);
}
