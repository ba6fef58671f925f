// Every function of the header, each doing something simple with all that it is given.
#include "mxspec_target.h"

#include <cstdint>
#include <cstring>

std::int32_t mxspec_abi(void) { return MXSPEC_ABI; }

const char *mxspec_describe(void) {
    return R"({"mxspec": 1, "name": "every", "version": "1", "device": "abacus", "libraries": {"beads": "2"}, "capabilities": {
        "formats": ["mxfp4"], "elements": ["e2m1"], "dtypes": ["float32", "float16", "bfloat16"],
        "affine": ["int4-g32-bias-float32/words"], "sparse_formats": ["e2m1-2to4"], "sparse_layout": ["unpacked", "nibble-low"],
        "products": ["mxfp4 @ mxfp4", "float32 @ mxfp4"], "grouped": ["float32 @ mxfp4 : counts", "float32 @ mxfp4 : masked"],
        "fused": ["silu_mul-mxfp4"], "caches": ["fp8_e4m3"], "attention": ["float32 @ fp8_e4m3"], "layouts": ["nibble-low", "row-major", "ggml-mxfp4"], "functions": {
        "quantize": ["axis", "pad", "block", "tensor_scale", "random_bits", "seed"], "dequantize": ["tensor_scale"],
        "quantize_fused": ["up", "residual", "weight", "eps", "tensor_scale"], "encode": ["rounding", "overflow"],
        "decode": [], "encode_stochastic": [], "tensor_scale": [], "pack": [], "unpack": [], "swizzle": [], "unswizzle": [],
        "quantize_affine": [], "dequantize_affine": [], "prune": [], "compress": [], "decompress": [],
        "pack_blocks": [], "unpack_blocks": [], "matmul": ["alpha", "beta", "c", "bias"], "grouped_matmul": ["alpha", "bias"],
        "append_cache": ["k_scale", "v_scale"], "read_cache": ["k_scale", "v_scale"],
        "attention": ["page_table", "causal", "window", "scale", "q_scale", "k_scale", "v_scale"]}}})";
}

// The fields, one to a byte, in place of codes.
std::int32_t mxspec_quantize(const mxspec_quantize_call *c) {
    std::memset(c->codes, 0, c->codes_size);
    std::memset(c->scales, c->tensor_scale ? (int)*c->tensor_scale : 99, c->scales_size);
    const std::int64_t fields[] = {c->dtype, c->axis, c->rows, c->columns, c->pad, c->block_rows};
    for (int i = 0; i < 6; ++i) c->codes[i] = (std::uint8_t)fields[i];
    return std::strcmp(c->format, "mxfp4") ? MXSPEC_ERROR : MXSPEC_OK;
}
// The first number of each array, and both options, in place of codes.
std::int32_t mxspec_quantize_fused(const mxspec_quantize_fused_call *c) {
    std::memset(c->codes, 0, c->codes_size);
    std::memset(c->scales, (int)(c->rows * c->columns), c->scales_size);
    const void *arrays[] = {c->x, c->up, c->residual, c->weight, c->eps, c->tensor_scale};
    for (int i = 0; i < 6; ++i) c->codes[i] = arrays[i] ? (std::uint8_t)*(const float *)arrays[i] : 99;
    return std::strcmp(c->format, "mxfp4") || std::strcmp(c->function, "silu_mul") || c->dtype ? MXSPEC_ERROR : MXSPEC_OK;
}
std::int32_t mxspec_dequantize(const mxspec_dequantize_call *c) {
    for (std::int64_t i = 0; i < c->rows * c->columns; ++i)
        c->values[i] = c->codes[i] * (float)c->scales[i / 32] * (c->tensor_scale ? *c->tensor_scale : 1);
    return MXSPEC_OK;
}
std::int32_t mxspec_quantize_affine(const mxspec_quantize_affine_call *c) {
    if (std::strcmp(c->affine, "int4-g32-bias-float32/words")) return MXSPEC_ERROR;
    std::uint32_t *words = (std::uint32_t *)c->codes;
    for (std::int64_t i = 0; i < c->codes_size / 4; ++i) words[i] = (std::uint32_t)(c->rows * 100 + c->columns);
    for (std::int64_t i = 0; i < c->scales_size / 4; ++i) {
        ((float *)c->scales)[i] = ((const float *)c->x)[i * 32];
        ((float *)c->offsets)[i] = (float)c->offsets_size;
    }
    return MXSPEC_OK;
}
std::int32_t mxspec_dequantize_affine(const mxspec_dequantize_affine_call *c) {
    for (std::int64_t i = 0; i < c->rows * c->columns; ++i)
        c->values[i] = (((const std::uint32_t *)c->codes)[i / 8] >> i % 8 * 4 & 15) * ((const float *)c->scales)[i / 32] +
            ((const float *)c->offsets)[i / 32];
    return c->codes_size * 2 == c->rows * c->columns && c->scales_size == c->offsets_size ? MXSPEC_OK : MXSPEC_ERROR;
}
std::int32_t mxspec_encode(const mxspec_encode_call *c) {
    for (std::int64_t i = 0; i < c->count; ++i)
        c->codes[i] = (std::uint8_t)((int)c->x[i] + (c->rounding ? c->rounding[0] : 0) + (c->overflow ? c->overflow[0] : 0));
    return MXSPEC_OK;
}
std::int32_t mxspec_decode(const mxspec_decode_call *c) {
    for (std::int64_t i = 0; i < c->count; ++i) c->values[i] = c->codes[i];
    return MXSPEC_OK;
}
std::int32_t mxspec_encode_stochastic(const mxspec_encode_stochastic_call *c) {
    for (std::int64_t i = 0; i < c->count; ++i) c->codes[i] = (std::uint8_t)((int)c->x[i] + (c->random_bits[i] >> 24));
    return MXSPEC_OK;
}
std::int32_t mxspec_tensor_scale(const mxspec_tensor_scale_call *c) {
    *c->scale = c->x[c->rows * c->columns - 1];
    return MXSPEC_OK;
}

static std::int64_t count(const mxspec_layout_call *c) {
    std::int64_t n = 1;
    for (int i = 0; i < c->rank; ++i) n *= c->shape[i];
    return n;
}
std::int32_t mxspec_pack(const mxspec_layout_call *c) {
    for (std::int64_t i = 0; i < c->data_size; ++i) c->data[i] = c->codes[2 * i] | c->codes[2 * i + 1] << 4;
    return c->scales ? MXSPEC_ERROR : MXSPEC_OK;
}
std::int32_t mxspec_unpack(const mxspec_layout_call *c) {
    for (std::int64_t i = 0; i < count(c); ++i) c->codes[i] = c->data[i / 2] >> 4 * (i % 2) & 15;
    return MXSPEC_OK;
}
std::int32_t mxspec_swizzle(const mxspec_layout_call *c) {
    std::memcpy(c->data, c->scales, c->data_size);
    return c->codes ? MXSPEC_ERROR : MXSPEC_OK;
}
std::int32_t mxspec_unswizzle(const mxspec_layout_call *c) {
    std::memcpy(c->scales, c->data, c->data_size);
    return MXSPEC_OK;
}
// 17 bytes to a block: the scale, then code i with code i + 16.
std::int32_t mxspec_pack_blocks(const mxspec_layout_call *c) {
    for (std::int64_t b = 0; b < count(c) / 32; ++b) {
        c->data[17 * b] = c->scales[b];
        for (int i = 0; i < 16; ++i) c->data[17 * b + 1 + i] = c->codes[32 * b + i] | c->codes[32 * b + 16 + i] << 4;
    }
    return MXSPEC_OK;
}
std::int32_t mxspec_unpack_blocks(const mxspec_layout_call *c) {
    for (std::int64_t b = 0; b < count(c) / 32; ++b) {
        c->scales[b] = c->data[17 * b];
        for (int i = 0; i < 32; ++i) c->codes[32 * b + i] = c->data[17 * b + 1 + i % 16] >> (i < 16 ? 0 : 4) & 15;
    }
    return MXSPEC_OK;
}
// The first two of each four are kept.
std::int32_t mxspec_prune(const mxspec_sparse_call *c) {
    for (std::int64_t i = 0; i < c->rows * c->columns; ++i) c->pruned[i] = i % 4 < 2 ? c->codes[i] : 0;
    return c->kept || c->metadata ? MXSPEC_ERROR : MXSPEC_OK;
}
std::int32_t mxspec_compress(const mxspec_sparse_call *c) {
    for (std::int64_t i = 0; i < c->kept_size; ++i) c->kept[i] = c->codes[i / 2 * 4 + i % 2];
    std::memset(c->metadata, 0x44, c->metadata_size);
    return std::strcmp(c->format, "e2m1-2to4") || c->pruned ? MXSPEC_ERROR : MXSPEC_OK;
}
std::int32_t mxspec_decompress(const mxspec_sparse_call *c) {
    for (std::int64_t i = 0; i < c->rows * c->columns; ++i) c->codes[i] = i % 4 < 2 ? c->kept[i / 4 * 2 + i % 2] : 0;
    return c->metadata[0] == 0x44 && c->metadata_size * 8 == c->rows * c->columns ? MXSPEC_OK : MXSPEC_ERROR;
}
std::int32_t mxspec_matmul(const mxspec_matmul_call *c) {
    auto value = [](const mxspec_operand &side, std::int64_t i) -> float {
        return side.values ? static_cast<const float *>(side.values)[i] : float(side.codes[i] * side.scales[i / 32]);
    };
    for (std::int64_t i = 0; i < c->m * c->n; ++i) {
        float sum = 0;
        for (std::int64_t j = 0; j < c->k; ++j) sum += value(c->a, i / c->n * c->k + j) * value(c->b, i % c->n * c->k + j);
        sum *= (c->a.tensor_scale ? *c->a.tensor_scale : 1) * (c->b.tensor_scale ? *c->b.tensor_scale : 1);
        sum = sum * (c->alpha ? *c->alpha : 1) + (c->c ? *c->beta * static_cast<const float *>(c->c)[i] : 0);
        static_cast<float *>(c->values)[i] = sum + (c->bias ? static_cast<const float *>(c->bias)[i % c->n] : 0);
    }
    return c->out_dtype == MXSPEC_FLOAT32 ? MXSPEC_OK : MXSPEC_UNSUPPORTED;
}
std::int32_t mxspec_grouped_matmul(const mxspec_grouped_matmul_call *c) {
    const bool masked = !std::strcmp(c->form, "masked");
    if (c->groups_size != 4 * c->experts || c->out_dtype != MXSPEC_FLOAT32) return MXSPEC_ERROR;
    for (std::int64_t expert = 0, row = 0; expert < c->experts; ++expert) {
        if (masked) row = expert * c->m;
        for (const std::int64_t end = row + c->groups[expert]; row < end; ++row)
            for (std::int64_t j = 0; j < c->n; ++j) {
                float sum = 0;
                for (std::int64_t i = 0, at = (expert * c->n + j) * c->k; i < c->k; ++i, ++at)
                    sum += static_cast<const float *>(c->a.values)[row * c->k + i] * c->b.codes[at] * c->b.scales[at / 32];
                sum = sum * (c->alpha ? c->alpha[expert] : 1) + (c->bias ? static_cast<const float *>(c->bias)[expert * c->n + j] : 0);
                static_cast<float *>(c->values)[row * c->n + j] = sum;
            }
    }
    return MXSPEC_OK;
}

// A code is the whole part of a number. What is given besides is added, so that it can be seen.
std::int32_t mxspec_append_cache(const mxspec_append_cache_call *c) {
    for (std::int64_t t = 0; t < c->tokens; ++t)
        for (std::int64_t i = 0; c->slots[t] >= 0 && i < c->kv_heads * c->d; ++i) {
            const std::int64_t from = t * c->kv_heads * c->d + i, to = c->slots[t] * c->kv_heads * c->k_width + i;
            static_cast<std::uint8_t *>(c->k_cache)[to] = (std::uint8_t)(static_cast<const float *>(c->k)[from] + (c->k_scale ? *c->k_scale : 0));
            static_cast<std::uint8_t *>(c->v_cache)[to] = (std::uint8_t)(static_cast<const float *>(c->v)[from] + (c->v_scale ? *c->v_scale : 0));
        }
    return std::strcmp(c->cache, "fp8_e4m3") || c->dtype != MXSPEC_FLOAT32 || c->pages * c->page < c->tokens ? MXSPEC_ERROR : MXSPEC_OK;
}
std::int32_t mxspec_read_cache(const mxspec_read_cache_call *c) {
    std::int64_t token = 0;
    for (std::int64_t n = 0; n < c->sequences; ++n)
        for (std::int64_t j = 0; j < c->lengths[n]; ++j, ++token)
            for (std::int64_t i = 0; i < c->kv_heads * c->d; ++i) {
                const std::int64_t row = c->page_table[n * c->pages_each + j / c->page] * c->page + j % c->page;
                c->k[token * c->kv_heads * c->d + i] = static_cast<const std::uint8_t *>(c->k_cache)[row * c->kv_heads * c->k_width + i];
                c->v[token * c->kv_heads * c->d + i] =
                    static_cast<const std::uint8_t *>(c->v_cache)[row * c->kv_heads * c->v_width + i] * (c->v_scale ? *c->v_scale : 1);
            }
    return c->k_scale_size && c->k_scale_size != 4 ? MXSPEC_ERROR : MXSPEC_OK;
}
// Each output is its query, and all that the call has.
std::int32_t mxspec_attention(const mxspec_attention_call *c) {
    const std::int64_t sizes = c->tokens + c->heads + c->sequences + c->kv_heads + c->d + c->pages + c->page + c->pages_each + c->k_width;
    const float given = (float)(sizes + c->causal + c->window + c->starts[c->sequences] + c->lengths[0]) + (c->scale ? *c->scale : 0) +
        (c->page_table ? c->page_table[0] : 1000) + (c->k_scale ? c->k_scale[0] : 0) + (c->v_scale ? c->v_scale[0] : 0);
    for (std::int64_t i = 0; i < c->tokens * c->heads * c->d; ++i)
        static_cast<float *>(c->values)[i] = static_cast<const float *>(c->q)[i] + given;
    return std::strcmp(c->attention, "float32 @ fp8_e4m3") || c->out_dtype ? MXSPEC_ERROR : MXSPEC_OK;
}
