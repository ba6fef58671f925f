// A target in C++17: mxfp4 as OCP MX v1.0 section 6.3 has it, and nvfp4 in Transformer Engine's order of operations.
//
//     c++ -O2 -std=c++17 -ffp-contract=off -shared -fPIC -I "$(mxspec header --folder)" target.cpp -o libtarget.so
//     mxspec check ./libtarget.so
//
// SPDX-License-Identifier: Apache-2.0
#include "mxspec_target.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>

namespace {

thread_local std::string message;

/// The values of a format's non-negative codes, in ascending order.
template <std::size_t Count>
using Table = std::array<double, Count>;

constexpr Table<8> E2M1 = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

Table<127> make_ue4m3() {
    Table<127> values{};
    for (int code = 0; code < 127; ++code) {
        const int field = code >> 3, fraction = code & 7;
        values[code] = field ? std::ldexp(8 + fraction, field - 10) : std::ldexp(fraction, -9);
    }
    return values;
}
const Table<127> UE4M3 = make_ue4m3();

/// The code nearest to v >= 0; of two equally near ones the even; beyond the last one the last.
template <std::size_t Count>
std::uint8_t encode(double v, const Table<Count> &values) {
    const auto above = std::upper_bound(values.begin(), values.end(), v);
    if (above == values.end()) return Count - 1;
    const auto high = static_cast<std::uint8_t>(above - values.begin()), low = static_cast<std::uint8_t>(high - 1);
    const double to_low = v - values[low], to_high = values[high] - v;
    if (to_low != to_high) return to_low < to_high ? low : high;
#ifdef TIES_AWAY  // a bug to show what the judge says of it
    if (Count == 8) return high;
#endif
    return low % 2 == 0 ? low : high;
}

std::uint8_t encode_e2m1(double v) {
    if (std::isnan(v)) return 7;
    return encode(std::fabs(v), E2M1) | (std::signbit(v) ? 8 : 0);
}

double decode_e2m1(std::uint8_t code) { return std::copysign(E2M1[code & 7], code & 8 ? -1.0 : 1.0); }

double decode_ue4m3(std::uint8_t code) {
    return (code & 0x7f) == 0x7f ? std::numeric_limits<double>::quiet_NaN() : UE4M3[code & 0x7f];
}

/// NaN if any element is.
float largest_magnitude(const float *x, std::int64_t count) {
    float amax = 0;
    for (std::int64_t i = 0; i < count; ++i) {
        if (std::isnan(x[i])) return x[i];
        amax = std::max(amax, std::fabs(x[i]));
    }
    return amax;
}

float at_most(float v, float limit) { return v > limit ? limit : v; }  // NaN stays
constexpr float FLOAT_MAX = std::numeric_limits<float>::max();

struct Mxfp4 {
    static constexpr int K = 32;

    static std::uint8_t quantize(const float *x, std::uint8_t *codes, const float *) {
        const float amax = largest_magnitude(x, K);
        if (std::isnan(amax)) {
            std::fill_n(codes, K, std::uint8_t{0});
            return 0xff;
        }
        int exponent = amax == 0 ? -127 : 127;
        if (amax != 0 && std::isfinite(amax)) exponent = std::max(std::ilogb(amax) - 2, -127);
        std::transform(x, x + K, codes, [=](float v) { return encode_e2m1(std::ldexp(double{v}, -exponent)); });
        return static_cast<std::uint8_t>(exponent + 127);
    }

    static float dequantize(std::uint8_t code, std::uint8_t scale, const float *) {
        if (scale == 0xff) return std::numeric_limits<float>::quiet_NaN();
        return static_cast<float>(std::ldexp(decode_e2m1(code), scale - 127));
    }
};

struct Nvfp4 {
    static constexpr int K = 16;

    static float encode_scale(const float *tensor_amax) {
        if (!tensor_amax || *tensor_amax == 0) return 1;
        const float s = at_most(2688.0f / *tensor_amax, FLOAT_MAX);
        return s == 0 ? 1 : s;
    }

    static std::uint8_t quantize(const float *x, std::uint8_t *codes, const float *tensor_amax) {
        const float s = encode_scale(tensor_amax);
        const float value = at_most(largest_magnitude(x, K) * (s * (1.0f / 6.0f)), FLOAT_MAX);
        const std::uint8_t scale = std::isnan(value) ? 0x7f : encode(value, UE4M3);
        const float factor = at_most(1.0f / (static_cast<float>(decode_ue4m3(scale)) * (1.0f / s)), FLOAT_MAX);
        std::transform(x, x + K, codes, [=](float v) { return encode_e2m1(v * factor); });
        return scale;
    }

    static float dequantize(std::uint8_t code, std::uint8_t scale, const float *tensor_amax) {
        const auto q = static_cast<float>(decode_e2m1(code)), sf = static_cast<float>(decode_ue4m3(scale));
        return tensor_amax ? q * ((sf * *tensor_amax) * (1.0f / 2688.0f)) : q * sf;
    }
};

template <class Format>
void quantize(const mxspec_quantize_call &call) {
    const auto *x = static_cast<const float *>(call.x);
    for (std::int64_t b = 0; b < call.scales_size; ++b)
        call.scales[b] = Format::quantize(x + Format::K * b, call.codes + Format::K * b, call.tensor_scale);
}

template <class Format>
void dequantize(const mxspec_dequantize_call &call) {
    for (std::int64_t i = 0; i < call.rows * call.columns; ++i)
        call.values[i] = Format::dequantize(call.codes[i], call.scales[i / Format::K], call.tensor_scale);
}

/// What cannot be done here.
struct Unsupported : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// No exception leaves the library: each becomes a status.
template <class Work>
std::int32_t guarded(Work work) {
    try {
        work();
        return MXSPEC_OK;
    } catch (const Unsupported &error) {
        message = error.what();
        return MXSPEC_UNSUPPORTED;
    } catch (const std::exception &error) {
        message = error.what();
        return MXSPEC_ERROR;
    }
}

}  // namespace

std::int32_t mxspec_abi(void) { return MXSPEC_ABI; }

const char *mxspec_message(void) { return message.c_str(); }

const char *mxspec_describe(void) {
    return R"({"mxspec": 1, "name": "example", "version": "1.0", "language": "C++", "capabilities": {
        "formats": ["mxfp4", "nvfp4"], "tensor_scale": "amax",
        "functions": {"quantize": ["tensor_scale"], "dequantize": ["tensor_scale"], "tensor_scale": []}}})";
}

std::int32_t mxspec_quantize(const mxspec_quantize_call *call) {
    return guarded([=] {
        if (call->dtype != MXSPEC_FLOAT32) throw Unsupported("float32 alone");
        if (call->format == std::string_view("mxfp4")) return quantize<Mxfp4>(*call);
        if (call->format == std::string_view("nvfp4")) return quantize<Nvfp4>(*call);
        throw Unsupported("mxfp4 and nvfp4 alone");
    });
}

std::int32_t mxspec_dequantize(const mxspec_dequantize_call *call) {
    return guarded([=] {
        if (call->format == std::string_view("mxfp4")) return dequantize<Mxfp4>(*call);
        if (call->format == std::string_view("nvfp4")) return dequantize<Nvfp4>(*call);
        throw Unsupported("mxfp4 and nvfp4 alone");
    });
}

std::int32_t mxspec_tensor_scale(const mxspec_tensor_scale_call *call) {
    return guarded([=] { *call->scale = largest_magnitude(call->x, call->rows * call->columns); });
}
