/* A weight-only product for mxspec: float16 activations times MXFP4 weights in packed nibbles, sums in float32.
 *
 *     cc -shared -fPIC -O2 -I "$(mxspec header --folder)" gemv.c -o libgemv.so && mxspec check ./libgemv.so
 *
 * BROKEN_NEXT_SCALE, BROKEN_LAST_K and BROKEN_HALF_SUMS compile three mistakes that the judge names.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <string.h>

#include "mxspec_target.h"

static const float E2M1[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

static float from_half(uint16_t h) {
    const int exponent = h >> 10 & 31, mantissa = h & 1023;
    float value;
    if (exponent == 31)
        value = mantissa ? NAN : INFINITY;
    else
        value = exponent ? ldexpf((float)(1024 + mantissa), exponent - 25) : ldexpf((float)mantissa, -24);
    return h & 0x8000 ? -value : value;
}

#ifdef BROKEN_HALF_SUMS
/* The nearest float16, ties to even, as a float. */
static float round_to_half(float x) {
    int exponent;
    if (!isfinite(x) || x == 0)
        return x;
    frexpf(x, &exponent);
    const int step = exponent - 11 < -24 ? -24 : exponent - 11;
    const float rounded = ldexpf(rintf(ldexpf(x, -step)), step);
    return fabsf(rounded) > 65504 ? copysignf(INFINITY, x) : rounded;
}
#endif

static float from_scale(uint8_t e8m0) { return e8m0 == 255 ? NAN : ldexpf(1, e8m0 - 127); }

MXSPEC_EXPORT int32_t mxspec_abi(void) { return MXSPEC_ABI; }

MXSPEC_EXPORT const char *mxspec_describe(void) {
    return "{\"mxspec\": 1, \"name\": \"gemv\", \"version\": \"1.0\", \"language\": \"C\","
           " \"capabilities\": {\"functions\": {\"matmul\": []}, \"products\": [\"float16 @ mxfp4/nibble-low\"]}}";
}

MXSPEC_EXPORT int32_t mxspec_matmul(const mxspec_matmul_call *call) {
    const uint16_t *x = call->a.values;
    float *y = call->values;
    const int64_t blocks = call->k / 32;
    int64_t used = call->k;
#ifdef BROKEN_LAST_K
    used--;
#endif
    for (int64_t i = 0; i < call->m; i++)
        for (int64_t j = 0; j < call->n; j++) {
            float sum = 0;
            for (int64_t k = 0; k < used; k++) {
                const uint8_t byte = call->b.codes[(j * call->k + k) / 2];
                int64_t block = k / 32;
#ifdef BROKEN_NEXT_SCALE
                block = (block + 1) % blocks;
#endif
                const float weight = E2M1[k % 2 ? byte >> 4 : byte & 15] * from_scale(call->b.scales[j * blocks + block]);
                sum += from_half(x[i * call->k + k]) * weight;
#ifdef BROKEN_HALF_SUMS
                sum = round_to_half(sum);
#endif
            }
            y[i * call->n + j] = sum;
        }
    return MXSPEC_OK;
}
