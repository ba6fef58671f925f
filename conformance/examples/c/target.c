/* A target in C: mxfp4 as OCP MX v1.0 section 6.3 has it, and nvfp4 in Transformer Engine's order of operations.
 *
 *     cc -O2 -std=c11 -ffp-contract=off -shared -fPIC -I "$(mxspec header --folder)" target.c -lm -o libtarget.so
 *     mxspec check ./libtarget.so
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "mxspec_target.h"

static _Thread_local const char *message = "";

static const float E2M1[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
/* Halfway between neighbours. Of a tie the even code wins: the lower one where its number is even. */
static const double MIDPOINT[7] = {0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0};

static uint8_t encode_e2m1(double v) {
    if (isnan(v)) return 7;
    double magnitude = fabs(v);
    int code = 0;
#ifdef TIES_AWAY /* a bug to show what the judge says of it */
    while (code < 7 && magnitude >= MIDPOINT[code]) code++;
#else
    while (code < 7 && (magnitude > MIDPOINT[code] || (magnitude == MIDPOINT[code] && code % 2 == 1))) code++;
#endif
    return (uint8_t)(code | (signbit(v) ? 8 : 0));
}

static double decode_e2m1(uint8_t code) { return code & 8 ? -(double)E2M1[code & 7] : (double)E2M1[code & 7]; }

static uint8_t encode_ue4m3(float v) { /* v >= 0 or NaN; saturates */
    if (isnan(v)) return 0x7f;
    if (v >= 448.0f) return 0x7e;
    int exponent;
    frexp((double)v, &exponent);
    if (v == 0.0f || exponent < -5) exponent = -5; /* subnormals share the lowest exponent */
    double steps = rint(ldexp((double)v, 4 - exponent)); /* eight steps to a binade; ties to even */
    return (uint8_t)(exponent == -5 && steps < 8 ? steps : (exponent + 5) * 8 + steps);
}

static double decode_ue4m3(uint8_t code) {
    if ((code & 0x7f) == 0x7f) return NAN;
    int field = code >> 3 & 15, fraction = code & 7;
    return field ? ldexp(8 + fraction, field - 10) : ldexp(fraction, -9);
}

static float largest_magnitude(const float *x, int64_t count) { /* NaN if any is */
    float amax = 0;
    for (int64_t i = 0; i < count; i++) {
        float m = fabsf(x[i]);
        if (isnan(m)) return m;
        if (m > amax) amax = m;
    }
    return amax;
}

static uint8_t quantize_mx_block(const float *x, uint8_t *codes) {
    float amax = largest_magnitude(x, 32);
    if (isnan(amax)) {
        memset(codes, 0, 32);
        return 0xff;
    }
    int exponent = 127;
    if (amax == 0.0f) exponent = -127;
    else if (isfinite(amax)) {
        frexp((double)amax, &exponent); /* amax = m * 2^exponent, 1/2 <= m < 1 */
        exponent = exponent - 1 - 2;    /* floor(log2 amax) minus the exponent of 6 */
        if (exponent < -127) exponent = -127;
    }
    for (int i = 0; i < 32; i++) codes[i] = encode_e2m1(ldexp((double)x[i], -exponent));
    return (uint8_t)(exponent + 127);
}

static float least(float a, float b) { return isnan(a) || a < b ? a : b; }

static float encode_scale(float tensor_amax) {
    float s = least(2688.0f / tensor_amax, FLT_MAX);
    return tensor_amax == 0.0f || s == 0.0f ? 1.0f : s;
}

static uint8_t quantize_nv_block(const float *x, float s, uint8_t *codes) {
    float sixth = 1.0f / 6.0f;
    uint8_t scale = encode_ue4m3(least(largest_magnitude(x, 16) * (s * sixth), FLT_MAX));
    float factor = least(1.0f / ((float)decode_ue4m3(scale) * (1.0f / s)), FLT_MAX);
    for (int i = 0; i < 16; i++) codes[i] = encode_e2m1((double)(x[i] * factor));
    return scale;
}

static int32_t refuse(const char *why) {
    message = why;
    return MXSPEC_UNSUPPORTED;
}

int32_t mxspec_abi(void) { return MXSPEC_ABI; }

const char *mxspec_message(void) { return message; }

const char *mxspec_describe(void) {
    return "{\"mxspec\": 1, \"name\": \"example\", \"version\": \"1.0\", \"language\": \"C\", \"capabilities\": {"
           "\"formats\": [\"mxfp4\", \"nvfp4\"], \"tensor_scale\": \"amax\", \"functions\": {"
           "\"quantize\": [\"tensor_scale\"], \"dequantize\": [\"tensor_scale\"], \"tensor_scale\": []}}}";
}

int32_t mxspec_quantize(const mxspec_quantize_call *call) {
    const float *x = call->x;
    if (call->dtype != MXSPEC_FLOAT32) return refuse("float32 alone");
    if (strcmp(call->format, "mxfp4") == 0) {
        for (int64_t b = 0; b < call->scales_size; b++) call->scales[b] = quantize_mx_block(x + 32 * b, call->codes + 32 * b);
        return MXSPEC_OK;
    }
    if (strcmp(call->format, "nvfp4") == 0) {
        float s = call->tensor_scale ? encode_scale(*call->tensor_scale) : 1.0f;
        for (int64_t b = 0; b < call->scales_size; b++)
            call->scales[b] = quantize_nv_block(x + 16 * b, s, call->codes + 16 * b);
        return MXSPEC_OK;
    }
    return refuse("mxfp4 and nvfp4 alone");
}

int32_t mxspec_dequantize(const mxspec_dequantize_call *call) {
    int64_t count = call->rows * call->columns;
    if (strcmp(call->format, "mxfp4") == 0) {
        for (int64_t i = 0; i < count; i++) {
            uint8_t scale = call->scales[i / 32];
            call->values[i] = scale == 0xff ? NAN : (float)ldexp(decode_e2m1(call->codes[i]), scale - 127);
        }
        return MXSPEC_OK;
    }
    if (strcmp(call->format, "nvfp4") == 0) {
        float unit = 1.0f / 2688.0f;
        for (int64_t i = 0; i < count; i++) {
            float q = (float)decode_e2m1(call->codes[i]), sf = (float)decode_ue4m3(call->scales[i / 16]);
            call->values[i] = call->tensor_scale ? q * ((sf * *call->tensor_scale) * unit) : q * sf;
        }
        return MXSPEC_OK;
    }
    return refuse("mxfp4 and nvfp4 alone");
}

int32_t mxspec_tensor_scale(const mxspec_tensor_scale_call *call) {
    *call->scale = largest_magnitude(call->x, call->rows * call->columns);
    return MXSPEC_OK;
}
