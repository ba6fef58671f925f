/* A grouped product for mxspec: rows of float32 activations, each times the MXFP4 weights of its expert, sums in float32.
 *
 *     cc -shared -fPIC -O2 -I "$(mxspec header --folder)" grouped.c -o libgrouped.so && mxspec check ./libgrouped.so
 *
 * BROKEN_TILES compiles a mistake that the judge names: all rows of a tile of 16 get the expert of the first one.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <string.h>

#include "mxspec_target.h"

static const float E2M1[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

static float from_scale(uint8_t e8m0) { return e8m0 == 255 ? NAN : ldexpf(1, e8m0 - 127); }

MXSPEC_EXPORT int32_t mxspec_abi(void) { return MXSPEC_ABI; }

MXSPEC_EXPORT const char *mxspec_describe(void) {
    return "{\"mxspec\": 1, \"name\": \"grouped\", \"version\": \"1.0\", \"language\": \"C\","
           " \"capabilities\": {\"functions\": {\"grouped_matmul\": [\"alpha\", \"bias\"]},"
           " \"grouped\": [\"float32 @ mxfp4/nibble-low : offsets\", \"float32 @ mxfp4/nibble-low : indexed\"]}}";
}

/* The expert of a row. */
static int64_t find_expert(const mxspec_grouped_matmul_call *call, int64_t row) {
    int64_t expert = 0;
#ifdef BROKEN_TILES
    row -= row % 16;
#endif
    if (!strcmp(call->form, "indexed"))
        return call->groups[row];
    while (row >= call->groups[expert + 1])
        expert++;
    return expert;
}

MXSPEC_EXPORT int32_t mxspec_grouped_matmul(const mxspec_grouped_matmul_call *call) {
    const float *x = call->a.values;
    const float *bias = call->bias;
    float *y = call->values;
    for (int64_t i = 0; i < call->m; i++) {
        const int64_t expert = find_expert(call, i);
        for (int64_t j = 0; j < call->n; j++) {
            const int64_t row = (expert * call->n + j) * call->k;
            float sum = 0;
            for (int64_t k = 0; k < call->k; k++) {
                const uint8_t byte = call->b.codes[(row + k) / 2];
                sum += x[i * call->k + k] * (E2M1[k % 2 ? byte >> 4 : byte & 15] * from_scale(call->b.scales[(row + k) / 32]));
            }
            y[i * call->n + j] = sum * (call->alpha ? call->alpha[expert] : 1) + (bias ? bias[expert * call->n + j] : 0);
        }
    }
    return MXSPEC_OK;
}
