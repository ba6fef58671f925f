// Array wrappers around the host functions of NVIDIA's cuda_fp4.h, cuda_fp6.h and cuda_fp8.h.
//
// Compiled for the host where the headers are installed; nothing of theirs is copied here. Each function takes raw bits
// (or codes), writes one result per element, and calls one header function for each.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <cuda_fp4.h>
#include <cuda_fp6.h>
#include <cuda_fp8.h>

namespace {

float as_float(std::uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

__half_raw as_half(std::uint16_t bits) {
    __half_raw value;
    value.x = bits;
    return value;
}

__nv_bfloat16_raw as_bfloat16(std::uint16_t bits) {
    __nv_bfloat16_raw value;
    value.x = bits;
    return value;
}

template <typename In, typename Out, typename Convert>
void map(const In *in, Out *out, std::size_t n, Convert convert) {
    for (std::size_t i = 0; i < n; ++i) {
        out[i] = static_cast<Out>(convert(in[i]));
    }
}

}  // namespace

#define ENCODER(NAME, BITS, LOAD, CALL, ...)                                                   \
    extern "C" void NAME(const BITS *in, std::uint8_t *out, std::size_t n) {                   \
        map(in, out, n, [](BITS bits) { return CALL(LOAD(bits), __VA_ARGS__); });              \
    }

#define ENCODERS(FORMAT, MODE, FAMILY, ...)                                                                         \
    ENCODER(encode_##FORMAT##_##MODE##_float32, std::uint32_t, as_float, __nv_cvt_float_to_##FAMILY, __VA_ARGS__)   \
    ENCODER(encode_##FORMAT##_##MODE##_bfloat16, std::uint16_t, as_bfloat16, __nv_cvt_bfloat16raw_to_##FAMILY,      \
            __VA_ARGS__)

#define ENCODERS_WITH_HALF(FORMAT, MODE, FAMILY, ...)                                                               \
    ENCODERS(FORMAT, MODE, FAMILY, __VA_ARGS__)                                                                     \
    ENCODER(encode_##FORMAT##_##MODE##_float16, std::uint16_t, as_half, __nv_cvt_halfraw_to_##FAMILY, __VA_ARGS__)

ENCODERS_WITH_HALF(e2m1, rne_saturate, fp4, __NV_E2M1, cudaRoundNearest)
ENCODERS_WITH_HALF(e2m1, rtz_saturate, fp4, __NV_E2M1, cudaRoundZero)
ENCODERS_WITH_HALF(e2m3, rne_saturate, fp6, __NV_E2M3, cudaRoundNearest)
ENCODERS_WITH_HALF(e2m3, rtz_saturate, fp6, __NV_E2M3, cudaRoundZero)
ENCODERS_WITH_HALF(e3m2, rne_saturate, fp6, __NV_E3M2, cudaRoundNearest)
ENCODERS_WITH_HALF(e3m2, rtz_saturate, fp6, __NV_E3M2, cudaRoundZero)
ENCODERS_WITH_HALF(e4m3, rne_saturate, fp8, __NV_SATFINITE, __NV_E4M3)
ENCODERS_WITH_HALF(e4m3, rne_own, fp8, __NV_NOSAT, __NV_E4M3)
ENCODERS_WITH_HALF(e5m2, rne_saturate, fp8, __NV_SATFINITE, __NV_E5M2)
ENCODERS_WITH_HALF(e5m2, rne_own, fp8, __NV_NOSAT, __NV_E5M2)
ENCODERS(e8m0, rtz_saturate, e8m0, __NV_SATFINITE, cudaRoundZero)
ENCODERS(e8m0, rtz_own, e8m0, __NV_NOSAT, cudaRoundZero)
ENCODERS(e8m0, rtp_saturate, e8m0, __NV_SATFINITE, cudaRoundPosInf)
ENCODERS(e8m0, rtp_own, e8m0, __NV_NOSAT, cudaRoundPosInf)

#define DECODER(FORMAT, CALL)                                                          \
    extern "C" void decode_##FORMAT(const std::uint8_t *in, std::uint16_t *out, std::size_t n) { \
        map(in, out, n, [](std::uint8_t code) { return CALL.x; });                     \
    }

// Results are float16 bits, of e8m0 bfloat16 bits.
DECODER(e2m1, __nv_cvt_fp4_to_halfraw(code, __NV_E2M1))
DECODER(e2m3, __nv_cvt_fp6_to_halfraw(code, __NV_E2M3))
DECODER(e3m2, __nv_cvt_fp6_to_halfraw(code, __NV_E3M2))
DECODER(e4m3, __nv_cvt_fp8_to_halfraw(code, __NV_E4M3))
DECODER(e5m2, __nv_cvt_fp8_to_halfraw(code, __NV_E5M2))
DECODER(e8m0, __nv_cvt_e8m0_to_bf16raw(code))
