/* INT4 in groups of 64 with float16 scales and biases, codes in 32-bit words: quantize by the min/max rule, and back.
 *
 *     cc -shared -fPIC -O2 -I "$(mxspec header --folder)" affine.c -lm -o libaffine.so
 *     mxspec check ./libaffine.so
 *
 * -DBROKEN_NEXT_SCALE, -DBROKEN_BIAS_SIGN, -DBROKEN_BFLOAT16 and -DBROKEN_STEPS each make one mistake.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "mxspec_target.h"

#include <math.h>
#include <string.h>

enum { GROUP = 64, BINS = 15 };

/* A float16 by its bits. */
static float from_half(uint16_t h) {
#if defined(BROKEN_BFLOAT16)
    uint32_t wide = (uint32_t)h << 16;
    float value;
    memcpy(&value, &wide, 4);
    return value;
#else
    int exponent = h >> 10 & 31, fraction = h & 1023;
    float magnitude = exponent == 31 ? (fraction ? NAN : INFINITY)
        : exponent ? ldexpf((float)(1024 + fraction), exponent - 25) : ldexpf((float)fraction, -24);
    return h >> 15 ? -magnitude : magnitude;
#endif
}

/* The nearest float16, ties to even. */
static uint16_t to_half(float value) {
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    float magnitude = fabsf(value);
    int exponent;
    if (isnan(value)) return 0x7e00;
    if (magnitude >= 65520) return sign | 0x7c00;
    if (magnitude == 0) return sign;
    frexpf(magnitude, &exponent);
    if (exponent < -13) exponent = -13;                             /* subnormal: steps of 2^-24 */
    float steps = rintf(ldexpf(magnitude, 11 - exponent));          /* 1024 to 2048, or fewer */
    return sign | (uint16_t)(((exponent + 13) << 10) + (int)steps); /* a carry goes into the exponent */
}

int32_t mxspec_abi(void) { return MXSPEC_ABI; }

const char *mxspec_describe(void) {
    return "{\"mxspec\": 1, \"name\": \"affine-c\", \"version\": \"1.0\", \"language\": \"C\", \"capabilities\": {"
           "\"affine\": [\"int4-g64-bias-float16/words\"],"
           "\"functions\": {\"quantize_affine\": [], \"dequantize_affine\": []}}}";
}

int32_t mxspec_quantize_affine(const mxspec_quantize_affine_call *call) {
    const uint16_t *x = call->x;
    uint32_t *words = call->codes;
    uint16_t *scales = call->scales, *biases = call->offsets;
    memset(words, 0, (size_t)call->codes_size);
    for (int64_t g = 0; g < call->rows * call->columns / GROUP; ++g) {
        float lo = INFINITY, hi = -INFINITY;
        for (int i = 0; i < GROUP; ++i) {
            float value = from_half(x[g * GROUP + i]);
            lo = value < lo ? value : lo;
            hi = value > hi ? value : hi;
        }
#if defined(BROKEN_STEPS)
        float scale = (hi - lo) / (BINS + 1);
#else
        float scale = (hi - lo) / BINS;
#endif
        for (int i = 0; i < GROUP; ++i) {
            float code = rintf((from_half(x[g * GROUP + i]) - lo) / scale);
            if (!(code > 0)) code = 0; /* a group of one value: 0 / 0 */
            if (code > BINS) code = BINS;
            words[(g * GROUP + i) / 8] |= (uint32_t)code << i % 8 * 4;
        }
        scales[g] = to_half(scale);
        biases[g] = to_half(lo);
    }
    return MXSPEC_OK;
}

int32_t mxspec_dequantize_affine(const mxspec_dequantize_affine_call *call) {
    const uint32_t *words = call->codes;
    const uint16_t *scales = call->scales, *biases = call->offsets;
    int64_t last = call->scales_size / 2 - 1;
    for (int64_t i = 0; i < call->rows * call->columns; ++i) {
        int64_t group = i / GROUP, taken = group;
        float bias = from_half(biases[group]);
#if defined(BROKEN_NEXT_SCALE)
        taken = group < last ? group + 1 : last;
#elif defined(BROKEN_BIAS_SIGN)
        bias = -bias;
#endif
        (void)last;
        call->values[i] = (float)(words[i / 8] >> i % 8 * 4 & 15) * from_half(scales[taken]) + bias;
    }
    return MXSPEC_OK;
}
