// Golden blocks in a C++ test of the kind that ggml has: a table of types, each with functions from floats to blocks and back.
//
//     mxspec kit c --format mxfp4 -o . && c++ -std=c++11 -I . test_quantize_fns.cpp -o test_quantize_fns && ./test_quantize_fns
//
// It exits with the number of types that fail. -DTIES_AWAY makes the quantizer here a wrong one.
//
// SPDX-License-Identifier: Apache-2.0
#include "mxspec_kit.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

namespace {

/// 32 numbers: a scale, then two codes to a byte, that of number j in the low half and that of number j + 16 in the high one.
struct BlockMxfp4 {
    uint8_t scale;
    uint8_t codes[16];
};

const double VALUES[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

uint8_t encode(float x, int scale) {
    const double size = std::ldexp(std::fabs((double)x), 127 - scale);
    int code = 0;
    while (code < 7) {
        const double tie = (VALUES[code] + VALUES[code + 1]) / 2;
#ifdef TIES_AWAY
        const bool up = size >= tie;
#else
        const bool up = size > tie || (size == tie && code % 2 == 1);
#endif
        if (!up) break;
        code++;
    }
    return (uint8_t)(code | (std::signbit(x) ? 8 : 0));
}

void quantize_mxfp4(const float *x, void *out, int64_t count) {
    BlockMxfp4 *block = (BlockMxfp4 *)out;
    for (int64_t start = 0; start < count; start += 32, block++) {
        uint32_t largest = 0;
        for (int j = 0; j < 32; j++) {
            uint32_t bits;
            std::memcpy(&bits, x + start + j, sizeof bits);
            if ((bits & 0x7FFFFFFFu) > largest) largest = bits & 0x7FFFFFFFu;
        }
        const int exponent = (int)(largest >> 23); // of 6, the largest value, it is 2
        block->scale = (uint8_t)(exponent < 2 ? 0 : exponent - 2);
        for (int j = 0; j < 16; j++)
            block->codes[j] = (uint8_t)(encode(x[start + j], block->scale) | encode(x[start + j + 16], block->scale) << 4);
    }
}

void dequantize_mxfp4(const void *in, float *y, int64_t count) {
    const BlockMxfp4 *block = (const BlockMxfp4 *)in;
    for (int64_t i = 0; i < count; i++) {
        const int j = (int)(i % 32), code = block[i / 32].codes[j % 16] >> (j < 16 ? 0 : 4) & 15;
        const float size = (float)std::ldexp(VALUES[code & 7], block[i / 32].scale - 127);
        y[i] = code & 8 ? -size : size;
    }
}

void unpack_mxfp4(const void *in, int64_t count, uint8_t *codes, uint8_t *scales) {
    const BlockMxfp4 *block = (const BlockMxfp4 *)in;
    for (int64_t i = 0; i < count; i++) {
        const int j = (int)(i % 32);
        codes[i] = block[i / 32].codes[j % 16] >> (j < 16 ? 0 : 4) & 15;
        scales[i / 32] = block[i / 32].scale;
    }
}

/// A type, as a table of a tensor library has it, and how a test reads its blocks.
struct Type {
    const char *name;
    int block_size;
    size_t block_bytes;
    void (*from_float)(const float *x, void *out, int64_t count);
    void (*to_float)(const void *in, float *y, int64_t count);
    void (*unpack)(const void *in, int64_t count, uint8_t *codes, uint8_t *scales);
};

const Type TYPES[] = {
    {"mxfp4", 32, sizeof(BlockMxfp4), quantize_mxfp4, dequantize_mxfp4, unpack_mxfp4},
};

const Type *tested;

/// What mxk_check calls.
void quantize_tested(const float *x, int rows, uint32_t, uint8_t *codes, uint8_t *scales) {
    const int64_t count = (int64_t)rows * tested->block_size;
    std::vector<uint8_t> blocks((size_t)rows * tested->block_bytes);
    tested->from_float(x, blocks.data(), count);
    tested->unpack(blocks.data(), count, codes, scales);
}

/// Blocks whose numbers become another block: what a block holds is what it was made of.
int count_changed(const mxk_format &format) {
    const size_t count = (size_t)format.blocks * (size_t)format.k;
    std::vector<uint8_t> once((size_t)format.blocks * tested->block_bytes), again(once.size());
    std::vector<float> x(count), back(count);
    std::memcpy(x.data(), format.x, count * sizeof(float));
    tested->from_float(x.data(), once.data(), (int64_t)count);
    tested->to_float(once.data(), back.data(), (int64_t)count);
    tested->from_float(back.data(), again.data(), (int64_t)count);
    int changed = 0;
    for (size_t i = 0; i < (size_t)format.blocks; i++) // NaN is open
        changed += !format.block[i].open && std::memcmp(&once[i * tested->block_bytes], &again[i * tested->block_bytes], tested->block_bytes);
    return changed;
}

} // namespace

int main() {
    int failed = 0;
    for (const Type &type : TYPES)
        for (const mxk_format *format : mxk_formats)
            if (!std::strcmp(type.name, format->name)) {
                tested = &type;
                const int wrong = mxk_check(format, quantize_tested, nullptr, 0, stdout), changed = count_changed(*format);
                std::printf("%s: %s, %d blocks changed by going back and forth\n", type.name, wrong || changed ? "FAILED" : "ok", changed);
                failed += wrong || changed;
            }
    return failed;
}
