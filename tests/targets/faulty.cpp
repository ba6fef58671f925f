// A library that decodes e2m1 and fails in the way that a macro names.
#include "mxspec_target.h"

#include <cstdint>
#include <cstdlib>

#ifndef ABI
#define ABI MXSPEC_ABI
#endif
#ifndef DESCRIPTION
#define DESCRIPTION R"({"mxspec": 1, "name": "faulty", "version": "1", "capabilities": {"functions": {"decode": []}, "elements": ["e2m1"]}})"
#endif

std::int32_t mxspec_abi(void) { return ABI; }
const char *mxspec_describe(void) { return DESCRIPTION; }
const char *mxspec_message(void) { return "see https://example.org/why"; }

#ifndef NO_DECODE
std::int32_t mxspec_decode(const mxspec_decode_call *call) {
    static const float VALUES[8] = {0, .5f, 1, 1.5f, 2, 3, 4, 6};
#ifdef SEGFAULT
    *reinterpret_cast<volatile int *>(call->count) = 0;
#endif
#ifdef ABORT
    std::abort();
#endif
#ifdef LOOP
    for (volatile int i = 0;; i = i + 1) {}
#endif
#ifdef STATUS
    return STATUS;
#endif
    for (std::int64_t i = 0; i < call->count; ++i) call->values[i] = VALUES[call->codes[i] & 7] * (call->codes[i] & 8 ? -1 : 1);
#ifdef BEYOND
    call->values[call->count] = 0;
#endif
#ifdef BEFORE
    call->values[-1] = 0;
#endif
#ifdef INPUT
    const_cast<std::uint8_t *>(call->codes)[0] ^= 1;
#endif
    return MXSPEC_OK;
}
#endif
