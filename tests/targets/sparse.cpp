// Pruning, compressing and decompressing of e2m1 in C++: kept codes two to a byte, nibbles in the words of Metal Marlin.
#include "mxspec_target.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

std::int32_t mxspec_abi(void) { return MXSPEC_ABI; }

const char *mxspec_describe(void) {
    return R"({"mxspec": 1, "name": "sparse-cpp", "version": "1", "capabilities": {
        "sparse_formats": ["e2m1-2to4"], "sparse_layout": ["nibble-low", "metal-marlin-metadata"], "prune_rule": "higher",
        "functions": {"prune": [], "compress": [], "decompress": []}}})";
}

namespace {
using Group = std::array<std::uint8_t, 4>;

// Positions of the two largest, ascending; of equal ones the higher.
std::array<int, 2> largest(const Group &g) {
    std::array<int, 4> order{3, 2, 1, 0};
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return (g[a] & 7) > (g[b] & 7); });
    return {std::min(order[0], order[1]), std::max(order[0], order[1])};
}

Group group_at(const mxspec_sparse_call *c, std::int64_t row, std::int64_t i) {
    Group g;
    std::memcpy(g.data(), c->codes + row * c->columns + 4 * i, 4);
    return g;
}

// Byte and shift of nibble i of a row: word i / 8 of the row lies beside those of the other rows.
std::int64_t place(const mxspec_sparse_call *c, std::int64_t row, std::int64_t i) {
    return (i / 8 * c->rows + row) * 4 + i % 8 / 2;
}
}  // namespace

std::int32_t mxspec_prune(const mxspec_sparse_call *c) {
    if (c->columns % 4) return MXSPEC_ERROR;
    std::memset(c->pruned, 0, c->rows * c->columns);
    for (std::int64_t row = 0; row < c->rows; ++row)
        for (std::int64_t i = 0; i < c->columns / 4; ++i) {
            Group g = group_at(c, row, i);
            for (int p : largest(g)) c->pruned[row * c->columns + 4 * i + p] = g[p];
        }
    return MXSPEC_OK;
}

std::int32_t mxspec_compress(const mxspec_sparse_call *c) {
    if (c->columns % 32 || c->kept_size * 4 != c->rows * c->columns) return MXSPEC_ERROR;
    std::memset(c->metadata, 0, c->metadata_size);
    for (std::int64_t row = 0; row < c->rows; ++row)
        for (std::int64_t i = 0; i < c->columns / 4; ++i) {
            Group g = group_at(c, row, i);
            auto [first, second] = largest(g);
            c->kept[row * c->columns / 4 + i] = g[first] | g[second] << 4;
            c->metadata[place(c, row, i)] |= (second << 2 | first) << 4 * (i % 2);
        }
    return MXSPEC_OK;
}

std::int32_t mxspec_decompress(const mxspec_sparse_call *c) {
    std::memset(c->codes, 0, c->rows * c->columns);
    for (std::int64_t row = 0; row < c->rows; ++row)
        for (std::int64_t i = 0; i < c->columns / 4; ++i) {
            int nibble = c->metadata[place(c, row, i)] >> 4 * (i % 2) & 15, kept = c->kept[row * c->columns / 4 + i];
            std::uint8_t *dense = c->codes + row * c->columns + 4 * i;
            dense[nibble & 3] = kept & 15;
            dense[nibble >> 2] = kept >> 4;
        }
    return MXSPEC_OK;
}
