/* mxspec_target.h: what a shared library exports so that mxspec can judge it.  ABI 2.
 *
 * Build a shared library with mxspec_abi, mxspec_describe and one function or more, then run
 *     mxspec smoke ./libmykernel.so
 *     mxspec check ./libmykernel.so
 *
 * The judge loads the library in a child process: a crash or an endless loop there is a verdict. All pointers are to the
 * host's memory and stay valid during the call alone. Arrays are row-major and dense. Inputs are to be left as they are.
 * Outputs belong to the caller, who has reserved exactly the bytes that each `_size` says. A pointer that is NULL where the
 * text allows it means that the option was not given.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef MXSPEC_TARGET_H
#define MXSPEC_TARGET_H

#include <stdint.h>

#define MXSPEC_ABI 2

#if defined(_WIN32)
#define MXSPEC_VISIBLE __declspec(dllexport)
#else
#define MXSPEC_VISIBLE __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
#define MXSPEC_EXPORT extern "C" MXSPEC_VISIBLE
#else
#define MXSPEC_EXPORT MXSPEC_VISIBLE
#endif

/* What every function returns. */
enum mxspec_status {
    MXSPEC_OK = 0,
    MXSPEC_UNSUPPORTED = 1, /* not offered: no verdict. mxspec_message may say why, with a link. */
    MXSPEC_ERROR = 2        /* tried and failed: a verdict. mxspec_message may say why. */
};

/* The type of x. */
enum mxspec_dtype { MXSPEC_FLOAT32 = 0, MXSPEC_FLOAT16 = 1, MXSPEC_BFLOAT16 = 2 };

/* x [rows, columns] -> codes and scales, in the layout that the description names: one code to a byte, or two (even element
 * in the low nibble); one scale to k elements in row-major order, or in tiles of 128 x 4. Scales of formats such as
 * "fp8_e4m3-128-f32" are floats: scales_size is their bytes. */
typedef struct mxspec_quantize_call {
    const char *format;        /* "mxfp4", "nvfp4", ... */
    const void *x;
    int32_t dtype;             /* enum mxspec_dtype */
    int32_t axis;              /* blocks lie along 1: a row, or 0: a column; 1 unless the option "axis" is described */
    int64_t rows, columns;
    int32_t pad;               /* 1: fill the axis up to whole blocks with zeros; 0 unless "pad" is described */
    int32_t block_rows;        /* 1, or 16 for 16 x 16 blocks; 1 unless "block" is described */
    const float *tensor_scale; /* of the kind that the description names, or NULL: one level of scales */
    uint8_t *codes;
    int64_t codes_size;
    uint8_t *scales;
    int64_t scales_size;
    const uint32_t *random_bits; /* a word to each number of x, or NULL: only where "random_bits" is described */
    const uint64_t *seed;        /* of the target's own generator, or NULL: only where "seed" is described */
} mxspec_quantize_call;

/* codes and scales, in the same layout -> values [rows, columns]. */
typedef struct mxspec_dequantize_call {
    const char *format;
    const uint8_t *codes;
    int64_t codes_size;
    const uint8_t *scales;
    int64_t scales_size;
    int64_t rows, columns;
    const float *tensor_scale; /* or NULL */
    float *values;
} mxspec_dequantize_call;

/* x [rows, columns] -> affine integers in groups along each row. `affine` names the format: "int4-g64-bias-float16" has codes
 * of 4 bits in groups of 64 with float16 scales and biases (value = code * scale + bias); with "zero" for "bias" the offsets are
 * zero points, one uint8 each (value = (code - zero) * scale). With "/words" behind it, as described, codes are uint32 words,
 * the first code in the lowest bits; otherwise one to a byte. x has the dtype of the scales. */
typedef struct mxspec_quantize_affine_call {
    const char *affine;
    const void *x;
    int64_t rows, columns;
    void *codes;
    int64_t codes_size;
    void *scales;
    int64_t scales_size;
    void *offsets;
    int64_t offsets_size;
} mxspec_quantize_affine_call;

/* The same back -> values [rows, columns]. */
typedef struct mxspec_dequantize_affine_call {
    const char *affine;
    const void *codes;
    int64_t codes_size;
    const void *scales;
    int64_t scales_size;
    const void *offsets;
    int64_t offsets_size;
    int64_t rows, columns;
    float *values;
} mxspec_dequantize_affine_call;

/* count numbers -> codes of an element or scale format, one to a byte. */
typedef struct mxspec_encode_call {
    const char *element;  /* "e2m1", "e4m3", "e8m0", ... */
    const float *x;
    int64_t count;
    const char *rounding; /* "rne", "rtz", ...; NULL: to nearest even */
    const char *overflow; /* "saturate" or "own"; NULL: saturate */
    uint8_t *codes;
} mxspec_encode_call;

typedef struct mxspec_decode_call {
    const char *element;
    const uint8_t *codes;
    int64_t count;
    float *values;
} mxspec_decode_call;

/* One random word to each number. */
typedef struct mxspec_encode_stochastic_call {
    const char *element;
    const float *x;
    const uint32_t *random_bits;
    int64_t count;
    uint8_t *codes;
} mxspec_encode_stochastic_call;

/* x [rows, columns] -> one tensor scale, of the kind that the description names. */
typedef struct mxspec_tensor_scale_call {
    const char *format;
    const float *x;
    int64_t rows, columns;
    float *scale;
} mxspec_tensor_scale_call;

/* pack (codes), swizzle (scales) and pack_blocks (both): -> data in a named layout; unpack, unswizzle and unpack_blocks: back.
 * Codes and scales are one to a byte. data_size is what the layout takes (`mxspec layouts show NAME`). */
typedef struct mxspec_layout_call {
    const char *layout;
    int32_t rank;
    const int64_t *shape; /* of the codes, or of the scales where there are no codes; the last axis lies closest */
    uint8_t *codes;       /* NULL for swizzle and unswizzle */
    uint8_t *scales;      /* NULL for pack and unpack */
    uint8_t *data;
    int64_t data_size;
} mxspec_layout_call;

/* One side of a product: [rows, k] numbers, rows being m of a and n of b, blocks along k. spec is the text under which the
 * description lists the side, such as "mxfp4/nibble-low+128x4". */
typedef struct mxspec_operand {
    const char *spec;
    const void *values;        /* float32, float16 or bfloat16 [rows, k], or [k, rows] where spec says transposed; else NULL */
    const uint8_t *codes;      /* of a block or affine format, laid out as spec says, by default one to a byte; else NULL */
    int64_t codes_size;        /* bytes */
    const uint8_t *scales;     /* laid out as spec says, by default [rows, k / block], of an affine format floats [rows, k / group];
                                * NULL where the codes hold them */
    int64_t scales_size;       /* bytes */
    const float *tensor_scale; /* NVFP4's second scale of this side, which multiplies; or NULL */
} mxspec_operand;

/* What else a side has: of affine integers, such as "int4-g64-bias-float16", biases in the dtype of the scales or zero points,
 * one uint8 each; of a sparse side, such as "mxfp4-2to4", metadata. A sparse side's values or codes are those kept, [rows, k / 2];
 * its scales and offsets lie in dense k. */
typedef struct mxspec_operand_more {
    const void *offsets;     /* laid out as spec says, by default [rows, k / group]; or NULL */
    int64_t offsets_size;    /* bytes */
    const uint8_t *metadata; /* nibbles, laid out as spec says, by default one to a byte, [rows, k / 4] (of pairs k / 8); or NULL */
    int64_t metadata_size;   /* bytes */
} mxspec_operand_more;

/* values = alpha * a b^T + beta * c + bias */
typedef struct mxspec_matmul_call {
    int64_t m, n, k;
    mxspec_operand a, b;
    const float *alpha, *beta; /* or NULL: 1 and 0 */
    const void *c;             /* [m, n], or NULL */
    const void *bias;          /* [n], or NULL */
    int32_t out_dtype;         /* enum mxspec_dtype: the type of values */
    int32_t added_dtype;       /* the type of c and bias */
    void *values;              /* [m, n] */
    mxspec_operand_more a_more, b_more; /* only for affine and sparse sides; a library that was compiled before they were here
                                         * describes none, and does not look at them */
} mxspec_matmul_call;

/* Rows of a, each multiplied with the matrix b of its expert: values = alpha[expert] * a b[expert]^T + bias[expert].
 * b [experts, n, k], each array of b.codes and b.scales with experts before its own axes, b.tensor_scale [experts] or NULL.
 * form says how the rows of a lie and what groups is:
 *   "counts"   a [m, k] sorted by expert; groups [experts], how many rows each has
 *   "offsets"  the same; groups [experts + 1], where the rows of each begin, and where the last ones end
 *   "padded"   the same, each expert's rows filled up to whole tiles; groups [m], the expert of each row, -1 of padding
 *   "masked"   a [experts, m, k], a.tensor_scale [experts] or NULL; groups [experts], how many of the m rows of each count
 *   "indexed"  a [m, k]; groups [m], the expert of each row
 * What is written for rows of padding does not count. */
typedef struct mxspec_grouped_matmul_call {
    const char *form;
    int64_t experts, m, n, k;
    mxspec_operand a, b;
    const int32_t *groups;
    int64_t groups_size;       /* bytes */
    const float *alpha;        /* [experts], or NULL: 1 */
    const void *bias;          /* [experts, n], or NULL */
    int32_t out_dtype;         /* enum mxspec_dtype: the type of values */
    int32_t added_dtype;       /* the type of bias */
    void *values;              /* [m, n], masked [experts, m, n] */
} mxspec_grouped_matmul_call;

/* Codes of a sparse format [rows, columns], one to a byte, groups along a row.
 * prune: codes -> pruned; compress: codes -> kept and metadata; decompress: kept and metadata -> codes. Kept codes are
 * [rows, columns / 2], nibbles [rows, columns / 4] (of pairs / 8), one to a byte or as the layouts under "sparse_layout" say. */
typedef struct mxspec_sparse_call {
    const char *format;  /* "e2m1-2to4", "e2m1-4to8", "int4-2to4", ... */
    int64_t rows, columns;
    uint8_t *codes;      /* an input of prune and compress, the output of decompress */
    uint8_t *pruned;     /* NULL but for prune */
    uint8_t *kept;       /* NULL for prune */
    int64_t kept_size;
    uint8_t *metadata;   /* NULL for prune */
    int64_t metadata_size;
} mxspec_sparse_call;

/* x -> codes and scales of function(x), in the layout that the description names: "silu_mul", "rmsnorm", "hadamard-16", ...
 * x is [rows, columns]; the codes have half as many columns where gate and up both lie in x. All arrays have the type of x. */
typedef struct mxspec_quantize_fused_call {
    const char *function;
    const char *format;
    const void *x;
    int32_t dtype;             /* enum mxspec_dtype, of all arrays */
    int64_t rows, columns;     /* of x */
    const void *up;            /* [rows, columns], or NULL: only where "up" is described */
    const void *residual;      /* the same */
    const void *weight;        /* [columns], or NULL */
    const float *eps;          /* or NULL: 1e-6 */
    const float *tensor_scale; /* or NULL: one level of scales */
    uint8_t *codes;
    int64_t codes_size;
    uint8_t *scales;
    int64_t scales_size;
} mxspec_quantize_fused_call;

/* New rows of K and V [tokens, kv_heads, d], quantized and written to their slots: page * tokens of a page + place, or -1: none.
 * A row is the codes of d numbers, then its scales: k_width and v_width bytes (numbers, of a cache that holds numbers). Pages are
 * [page, kv_heads, width], or [kv_heads, page, width] with "heads-first". `cache` is a text that the description lists. */
typedef struct mxspec_append_cache_call {
    const char *cache;
    int64_t tokens, kv_heads, d, pages, page, k_width, v_width;
    const void *k, *v;
    int32_t dtype;                  /* enum mxspec_dtype: of k and v */
    const int32_t *slots;           /* [tokens] */
    const float *k_scale, *v_scale; /* one, or one for each head; or NULL: 1 */
    int64_t k_scale_size, v_scale_size; /* bytes */
    void *k_cache, *v_cache;        /* as they are before the call; to be written in place */
} mxspec_append_cache_call;

/* The rows of all sequences, one behind the other -> k and v [sum of lengths, kv_heads, d]. */
typedef struct mxspec_read_cache_call {
    const char *cache;
    int64_t sequences, kv_heads, d, pages, page, pages_each, k_width, v_width;
    const void *k_cache, *v_cache;
    const int32_t *page_table;      /* [sequences, pages_each] */
    const int32_t *lengths;         /* [sequences] */
    const float *k_scale, *v_scale;
    int64_t k_scale_size, v_scale_size;
    float *k, *v;
} mxspec_read_cache_call;

/* softmax(scale q k^T) v for the queries [tokens, heads, d] of all sequences. `attention` is a text that the description lists. */
typedef struct mxspec_attention_call {
    const char *attention;
    int64_t tokens, heads, sequences, kv_heads, d, pages, page, pages_each, k_width, v_width;
    const void *q;                  /* numbers of the named dtype, or one FP8 code to a byte */
    const void *k, *v;              /* pages as above; with "ragged" rows [sum of lengths, kv_heads, width] */
    const int32_t *starts;          /* [sequences + 1]: where the queries of each sequence begin */
    const int32_t *lengths;         /* [sequences]: keys of each */
    const int32_t *page_table;      /* [sequences, pages_each], or NULL with "ragged" */
    int32_t causal;                 /* 1: the last query belongs to the last key ("top-left": the first to the first) */
    int32_t out_dtype;              /* enum mxspec_dtype: the type of values */
    int64_t window;                 /* keys that a query sees at most, its own the last of them; 0: all */
    const float *scale;             /* or NULL: 1 / sqrt(d) */
    const float *q_scale, *k_scale, *v_scale;
    int64_t q_scale_size, k_scale_size, v_scale_size;
    void *values;                   /* [tokens, heads, d] */
} mxspec_attention_call;

/* Required. MXSPEC_ABI as it was when the library was compiled. */
MXSPEC_EXPORT int32_t mxspec_abi(void);

/* Required. JSON that says what the library offers; the text stays valid while the library is loaded:
 *   {"mxspec": 1, "name": "my-kernel", "version": "1.0",
 *    "capabilities": {"formats": ["mxfp4"], "functions": {"quantize": [], "dequantize": []}}}
 * Its schema is `description` in protocol.schema.json (`mxspec protocol`). */
MXSPEC_EXPORT const char *mxspec_describe(void);

/* Optional. Why the last call of this thread did not return MXSPEC_OK. */
MXSPEC_EXPORT const char *mxspec_message(void);

/* Those that the description lists under "functions". */
MXSPEC_EXPORT int32_t mxspec_quantize(const mxspec_quantize_call *call);
MXSPEC_EXPORT int32_t mxspec_quantize_fused(const mxspec_quantize_fused_call *call);
MXSPEC_EXPORT int32_t mxspec_dequantize(const mxspec_dequantize_call *call);
MXSPEC_EXPORT int32_t mxspec_quantize_affine(const mxspec_quantize_affine_call *call);
MXSPEC_EXPORT int32_t mxspec_dequantize_affine(const mxspec_dequantize_affine_call *call);
MXSPEC_EXPORT int32_t mxspec_encode(const mxspec_encode_call *call);
MXSPEC_EXPORT int32_t mxspec_decode(const mxspec_decode_call *call);
MXSPEC_EXPORT int32_t mxspec_encode_stochastic(const mxspec_encode_stochastic_call *call);
MXSPEC_EXPORT int32_t mxspec_tensor_scale(const mxspec_tensor_scale_call *call);
MXSPEC_EXPORT int32_t mxspec_prune(const mxspec_sparse_call *call);
MXSPEC_EXPORT int32_t mxspec_compress(const mxspec_sparse_call *call);
MXSPEC_EXPORT int32_t mxspec_decompress(const mxspec_sparse_call *call);
MXSPEC_EXPORT int32_t mxspec_pack(const mxspec_layout_call *call);
MXSPEC_EXPORT int32_t mxspec_unpack(const mxspec_layout_call *call);
MXSPEC_EXPORT int32_t mxspec_swizzle(const mxspec_layout_call *call);
MXSPEC_EXPORT int32_t mxspec_unswizzle(const mxspec_layout_call *call);
MXSPEC_EXPORT int32_t mxspec_pack_blocks(const mxspec_layout_call *call);
MXSPEC_EXPORT int32_t mxspec_unpack_blocks(const mxspec_layout_call *call);
MXSPEC_EXPORT int32_t mxspec_matmul(const mxspec_matmul_call *call);
MXSPEC_EXPORT int32_t mxspec_grouped_matmul(const mxspec_grouped_matmul_call *call);
MXSPEC_EXPORT int32_t mxspec_append_cache(const mxspec_append_cache_call *call);
MXSPEC_EXPORT int32_t mxspec_read_cache(const mxspec_read_cache_call *call);
MXSPEC_EXPORT int32_t mxspec_attention(const mxspec_attention_call *call);

#endif
