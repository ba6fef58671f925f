// Caches and attention of FP8 (e4m3) rows under one given scale, float32 throughout, one pass with a running maximum.
#include "mxspec_target.h"

#include <cmath>
#include <cstdint>
#include <vector>

std::int32_t mxspec_abi(void) { return MXSPEC_ABI; }

const char *mxspec_describe(void) {
    return R"({"mxspec": 1, "name": "attention", "version": "1", "capabilities": {
        "caches": ["fp8_e4m3"], "attention": ["float32 @ fp8_e4m3"], "functions": {"append_cache": ["k_scale", "v_scale"],
        "read_cache": ["k_scale", "v_scale"], "attention": ["page_table", "causal", "window", "scale", "k_scale", "v_scale"]}}})";
}

static float value(std::uint8_t code) {
    const int exponent = code >> 3 & 15, fraction = code & 7;
    if (exponent == 15 && fraction == 7) return NAN;
    const float magnitude = exponent ? std::ldexp(8.0f + fraction, exponent - 10) : std::ldexp((float)fraction, -9);
    return code & 128 ? -magnitude : magnitude;
}
// The nearest code, of two that are equally near the even one; beyond the largest that.
static std::uint8_t code(float x) {
    std::uint8_t best = 0;
    for (int c = 1; c < 127; ++c) {
        const float before = std::fabs(std::fabs(x) - value(best)), now = std::fabs(std::fabs(x) - value((std::uint8_t)c));
        if (now < before || (now == before && c % 2 == 0)) best = (std::uint8_t)c;
    }
    return (std::uint8_t)(best | (std::signbit(x) ? 128 : 0));
}
static float one(const float *scale) { return scale ? *scale : 1.0f; }

std::int32_t mxspec_append_cache(const mxspec_append_cache_call *c) {
    const std::int64_t width = c->kv_heads * c->d;
    for (std::int64_t t = 0; t < c->tokens; ++t)
        for (std::int64_t i = 0; c->slots[t] >= 0 && i < width; ++i) {
            ((std::uint8_t *)c->k_cache)[c->slots[t] * width + i] = code(((const float *)c->k)[t * width + i] / one(c->k_scale));
            ((std::uint8_t *)c->v_cache)[c->slots[t] * width + i] = code(((const float *)c->v)[t * width + i] / one(c->v_scale));
        }
    return MXSPEC_OK;
}
std::int32_t mxspec_read_cache(const mxspec_read_cache_call *c) {
    const std::int64_t width = c->kv_heads * c->d;
    std::int64_t token = 0;
    for (std::int64_t n = 0; n < c->sequences; ++n)
        for (std::int64_t j = 0; j < c->lengths[n]; ++j, ++token)
            for (std::int64_t i = 0; i < width; ++i) {
                const std::int64_t from = (c->page_table[n * c->pages_each + j / c->page] * c->page + j % c->page) * width + i;
                c->k[token * width + i] = value(((const std::uint8_t *)c->k_cache)[from]) * one(c->k_scale);
                c->v[token * width + i] = value(((const std::uint8_t *)c->v_cache)[from]) * one(c->v_scale);
            }
    return MXSPEC_OK;
}
std::int32_t mxspec_attention(const mxspec_attention_call *c) {
    const float scale = c->scale ? *c->scale : 1 / std::sqrt((float)c->d);
    std::vector<float> sum(c->d);
    for (std::int64_t n = 0; n < c->sequences; ++n)
        for (std::int64_t row = c->starts[n]; row < c->starts[n + 1]; ++row)
            for (std::int64_t head = 0; head < c->heads; ++head) {
                const float *q = (const float *)c->q + (row * c->heads + head) * c->d;
                const std::int64_t own = row - c->starts[n + 1] + c->lengths[n], end = c->causal ? own + 1 : c->lengths[n];
                float most = -INFINITY, total = 0;
                sum.assign(c->d, 0);
                for (std::int64_t j = c->window && own >= c->window ? own - c->window + 1 : 0; j < end; ++j) {
                    const std::int64_t place = c->page_table[n * c->pages_each + j / c->page] * c->page + j % c->page;
                    const std::int64_t from = (place * c->kv_heads + head / (c->heads / c->kv_heads)) * c->d;
                    float z = 0;
                    for (std::int64_t i = 0; i < c->d; ++i) z += q[i] * value(((const std::uint8_t *)c->k)[from + i]);
                    z *= scale * one(c->k_scale);
                    const float top = std::fmax(most, z), again = std::exp(most - top), p = std::exp(z - top);
                    total = total * again + p;
                    for (std::int64_t i = 0; i < c->d; ++i) sum[i] = sum[i] * again + p * value(((const std::uint8_t *)c->v)[from + i]);
                    most = top;
                }
                for (std::int64_t i = 0; i < c->d; ++i)
                    ((float *)c->values)[(row * c->heads + head) * c->d + i] = total > 0 ? sum[i] / total * one(c->v_scale) : 0;
            }
    return c->out_dtype == MXSPEC_FLOAT32 ? MXSPEC_OK : MXSPEC_UNSUPPORTED;
}
