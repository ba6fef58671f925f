// FP8 with float32 scales for groups of 128, rows and tensors: the scale is amax / 448 and not below 1 / (448 * 512). Elements of groups are
// divided by it, others multiplied by its reciprocal. A target of tests.
#include <cmath>
#include <cstring>

#include "mxspec_target.h"

static const float LEAST = 1.0f / (448 * 512);

static float decode(uint8_t code) {
    int field = code >> 3 & 15, fraction = code & 7;
    float magnitude = (code & 0x7f) == 0x7f ? NAN : field ? std::ldexp(8.0f + fraction, field - 10) : std::ldexp((float)fraction, -9);
    return code & 0x80 ? -magnitude : magnitude;
}

static uint8_t encode(float v) {  // NaN keeps its sign; saturates
    uint8_t sign = std::signbit(v) ? 0x80 : 0;
    float m = std::fabs(v);
    if (std::isnan(m)) return sign | 0x7f;
    if (m >= 448) return sign | 0x7e;
    int exponent;
    std::frexp(m, &exponent);
    if (m == 0 || exponent < -5) exponent = -5;
    float steps = std::nearbyint(std::ldexp(m, 4 - exponent));
    return sign | (uint8_t)(exponent == -5 && steps < 8 ? steps : (exponent + 5) * 8 + steps);
}

// Numbers that share a scale.
static int64_t count_shared(const char *format, int64_t rows, int64_t columns) {
    return std::strstr(format, "-128-") ? 128 : std::strstr(format, "-row-") ? columns : rows * columns;
}

MXSPEC_EXPORT int32_t mxspec_abi(void) { return MXSPEC_ABI; }

MXSPEC_EXPORT const char *mxspec_describe(void) {
    return "{\"mxspec\": 1, \"name\": \"float-scales\", \"version\": \"1\", \"language\": \"C++\", \"capabilities\": {"
           "\"formats\": [\"fp8_e4m3-128-f32\", \"fp8_e4m3-row-f32\", \"fp8_e4m3-tensor-f32\"], \"functions\": {\"quantize\": [], \"dequantize\": []}}}";
}

MXSPEC_EXPORT int32_t mxspec_quantize(const mxspec_quantize_call *call) {
    const float *x = (const float *)call->x;
    float *scales = (float *)call->scales;
    const int64_t k = count_shared(call->format, call->rows, call->columns);
    for (int64_t b = 0; k && b < call->rows * call->columns / k; b++, x += k) {
        float amax = 0;
        for (int64_t i = 0; i < k; i++)
            if (!(std::fabs(x[i]) <= amax)) amax = std::isnan(amax) ? amax : std::fabs(x[i]);
        float scale = std::fmax(amax / 448, LEAST);
        scales[b] = std::isnan(amax) ? NAN : scale;
        for (int64_t i = 0; i < k; i++) {
            float quotient = std::strstr(call->format, "-128-") ? x[i] / scales[b] : x[i] * (1 / scales[b]);
            if (std::isinf(x[i]) && std::isinf(scales[b])) quotient = -NAN;
            else if (std::isnan(scales[b]) && !std::isnan(x[i])) quotient = NAN;
            call->codes[b * k + i] = encode(quotient);
        }
    }
    return MXSPEC_OK;
}

MXSPEC_EXPORT int32_t mxspec_dequantize(const mxspec_dequantize_call *call) {
    const float *scales = (const float *)call->scales;
    const int64_t k = count_shared(call->format, call->rows, call->columns);
    if (k && call->scales_size != call->rows * call->columns / k * 4) return MXSPEC_ERROR;
    for (int64_t i = 0; i < call->rows * call->columns; i++) call->values[i] = decode(call->codes[i]) * scales[i / k];
    return MXSPEC_OK;
}
