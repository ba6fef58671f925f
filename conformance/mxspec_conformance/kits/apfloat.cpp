// Holds LLVM's APFloat to MXCases.inc: both ends of every step, digests of 2^16 inputs, and with --sweep [SEMANTICS [MODE]] of all 2^32.
//   c++ -std=c++17 -O2 -pthread $(llvm-config --cppflags) mx_apfloat.cpp $(llvm-config --ldflags --libs support) -o mx_apfloat && ./mx_apfloat
// Code: Apache-2.0.
#include "llvm/ADT/APFloat.h"
#include "llvm/Config/llvm-config.h"
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>
using llvm::APFloat;
using llvm::APInt;

enum Kind { Step, NaN, Open };
struct Row { const char *semantics, *mode; uint32_t first; unsigned code; Kind kind; };
struct Sweep { const char *semantics, *mode; uint64_t all, upper; const llvm::fltSemantics &(*to)(); APFloat::roundingMode rounding; };

static const Row rows[] = {
#define MX_STEP(S, M, F, C) {#S, #M, F, C, Step},
#define MX_NAN(S, M, F, C) {#S, #M, F, C, NaN},
#define MX_OPEN(S, M, F, C) {#S, #M, F, C, Open},
#include "MXCases.inc"
};
static const Sweep sweeps[] = {
#define MX_SWEEP(S, M, A, U) {#S, #M, A, U, &APFloat::S, APFloat::rm##M},
#include "MXCases.inc"
};

static APFloat cast(uint32_t bits, const Sweep &s) {
  APFloat x(APFloat::IEEEsingle(), APInt(32, bits));
  bool lost;
  x.convert(s.to(), s.rounding, &lost);
  return x;
}
static unsigned code(const APFloat &x) { return (unsigned)x.bitcastToAPInt().getZExtValue(); }

// The rows of one cast, in order; the row of a pattern is the last that begins at it or below.
static std::vector<Row> rows_of(const Sweep &s) {
  std::vector<Row> found;
  for (const Row &r : rows)
    if (!strcmp(r.semantics, s.semantics) && !strcmp(r.mode, s.mode)) found.push_back(r);
  return found;
}

// Whether a pattern is cast as its row says; open answers are not asked for.
static bool agrees(uint32_t bits, const Row &r, const Sweep &s, unsigned *returned) {
  APFloat x = cast(bits, s);
  *returned = code(x);
  return r.kind == NaN ? x.isNaN() : *returned == r.code;
}

// What a run of patterns does to a digest: h -> h * factor + term. Runs are digested apart and put together, so all cores take part.
struct Part { uint64_t factor = 1, term = 0; };
static const uint64_t Factor = 0x9E3779B97F4A7C15u;

static void digest_part(const std::vector<Row> &own, const Sweep &s, unsigned shift, uint64_t first, uint64_t end, Part &part) {
  size_t at = 0;
  for (uint64_t bits = first; bits < end; bits += (uint64_t)1 << shift) {
    while (at + 1 < own.size() && own[at + 1].first <= bits) at++;
    unsigned c = own[at].code;
    if (own[at].kind == Step) c = code(cast((uint32_t)bits, s));
    else if (own[at].kind == NaN && !cast((uint32_t)bits, s).isNaN()) c = 256;
    part.factor *= Factor;
    part.term = part.term * Factor + c + 1;
  }
}

static uint64_t digest(const std::vector<Row> &own, const Sweep &s, unsigned shift) {
  const unsigned parts = 64, workers = std::max(1u, std::min(parts, std::thread::hardware_concurrency()));
  const uint64_t length = ((uint64_t)1 << 32) / parts;
  std::vector<Part> done(parts);
  std::vector<std::thread> threads;
  for (unsigned w = 0; w < workers; w++)
    threads.emplace_back([&, w] {
      for (unsigned i = w; i < parts; i += workers) digest_part(own, s, shift, i * length, (i + 1) * length, done[i]);
    });
  for (std::thread &t : threads) t.join();
  uint64_t h = 0;
  for (const Part &p : done) h = h * p.factor + p.term;
  return h;
}

int main(int count, char **arguments) {
  unsigned wrong = 0, asked = 0, open = 0, digests = 0;
  bool all = count > 1 && !strcmp(arguments[1], "--sweep");
  for (const Sweep &s : sweeps) {
    std::vector<Row> own = rows_of(s);
    for (size_t i = 0; i < own.size(); i++) {
      uint32_t last = i + 1 < own.size() ? own[i + 1].first - 1 : 0xFFFFFFFFu;
      if (own[i].kind == Open) { open++; continue; }
      for (uint32_t bits : {own[i].first, own[i].first + (last - own[i].first) / 2, last}) {
        unsigned returned;
        asked++;
        if (!agrees(bits, own[i], s, &returned)) {
          wrong++;
          printf("DIFFERS %s %s %08X expected %s%02X returned %02X\n", s.semantics, s.mode, bits, own[i].kind == NaN ? "a NaN such as " : "", own[i].code, returned);
        }
      }
    }
    if ((count > 2 && strcmp(arguments[2], s.semantics)) || (count > 3 && strcmp(arguments[3], s.mode))) continue;
    bool same = digest(own, s, all ? 0 : 16) == (all ? s.all : s.upper);
    if (all) printf("SWEEP %s %s %s\n", s.semantics, s.mode, same ? "equal" : "differs"), fflush(stdout);
    digests += same;
  }
  printf("RESULT llvm=%s casts=%zu rows=%zu asked=%u wrong=%u open=%u inputs=%s digests_equal=%u\n", LLVM_VERSION_STRING, sizeof sweeps / sizeof *sweeps,
         sizeof rows / sizeof *rows, asked, wrong, open, all ? "4294967296" : "65536", digests);
  return wrong != 0;
}
