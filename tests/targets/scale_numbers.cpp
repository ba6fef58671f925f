// MXFP4 by mx-floor, with scales as the numbers that their bytes mean. A target of tests.
#include <cmath>
#include <cstring>

#include "mxspec_target.h"

static const float GRID[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};

MXSPEC_EXPORT int32_t mxspec_abi(void) { return MXSPEC_ABI; }

MXSPEC_EXPORT const char *mxspec_describe(void) {
    return "{\"mxspec\": 1, \"name\": \"scale-numbers\", \"version\": \"1\", \"language\": \"C++\", \"capabilities\": {"
           "\"formats\": [\"mxfp4\"], \"scales\": \"float32\", \"functions\": {\"quantize\": [], \"dequantize\": []}}}";
}

MXSPEC_EXPORT int32_t mxspec_quantize(const mxspec_quantize_call *call) {
    const float *x = (const float *)call->x;
    float *scales = (float *)call->scales;
    for (int64_t b = 0; b < call->rows * call->columns / 32; b++, x += 32) {
        float amax = 0;
        bool lost = false;
        for (int i = 0; i < 32; i++) {
            lost |= !std::isfinite(x[i]);
            amax = std::fmax(amax, std::fabs(x[i]));
        }
        int exponent;
        std::frexp(amax, &exponent);
        exponent = amax == 0 || exponent < -124 ? -127 : exponent - 3;
        scales[b] = lost ? NAN : std::ldexp(1.0f, exponent);
        for (int i = 0; i < 32; i++) {
            double quotient = lost ? 0 : std::ldexp(std::fabs((double)x[i]), -exponent);
            uint8_t code = 0;
            for (uint8_t j = 1; j < 8; j++) {
                double middle = (GRID[j] + (double)GRID[j - 1]) / 2;
                if (quotient > middle || (quotient == middle && j % 2 == 0)) code = j;
            }
            call->codes[32 * b + i] = code | (!lost && std::signbit(x[i]) ? 8 : 0);
        }
    }
    return MXSPEC_OK;
}

MXSPEC_EXPORT int32_t mxspec_dequantize(const mxspec_dequantize_call *call) {
    const float *scales = (const float *)call->scales;
    for (int64_t i = 0; i < call->rows * call->columns; i++) {
        float value = GRID[call->codes[i] & 7] * scales[i / 32];
        ((float *)call->values)[i] = call->codes[i] & 8 ? -value : value;
    }
    return MXSPEC_OK;
}
