/* Put in front of ggml's own functions by LD_PRELOAD: the traits of one type quantize and dequantize by asking another process; all other types say
   that they are deprecated, which the test skips. tests/suites/ggml_quantize_fns.py answers. Code: Apache-2.0. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

/* The fields of `ggml_type_traits` and `ggml_type_traits_cpu`, in ggml's order. */
struct traits {
  const char *name;
  int64_t block, interleave;
  size_t size;
  bool quantized;
  void (*to_float)(const void *, float *, int64_t);
  void (*from_float)(const float *, void *, int64_t);
};
struct traits_cpu {
  void (*from_float)(const float *, void *, int64_t);
  void *vec_dot;
  int vec_dot_type;
  int64_t rows;
};

static struct traits asked, none;
static struct traits_cpu asked_cpu;

static int number(const char *name) { return atoi(getenv(name)); }

static void move(ssize_t (*act)(int, void *, size_t), int file, void *data, size_t bytes) {
  char *at = data;
  while (bytes) {
    ssize_t n = act(file, at, bytes);
    if (n <= 0) _exit(3); /* nobody answers */
    at += n, bytes -= (size_t)n;
  }
}

static ssize_t put(int file, void *data, size_t bytes) { return write(file, data, bytes); }

/* A question: what is asked, bytes in, bytes out, and the bytes; then the answer's bytes. */
static void ask(int64_t what, const void *in, size_t in_bytes, void *out, size_t out_bytes) {
  int64_t head[3] = {what, (int64_t)in_bytes, (int64_t)out_bytes};
  move(put, number("MX_ASK"), head, sizeof head);
  move(put, number("MX_ASK"), (void *)in, in_bytes);
  move(read, number("MX_ANSWER"), out, out_bytes);
}

static size_t packed(int64_t n) { return (size_t)(n / asked.block) * asked.size; }
static void quantize(const float *x, void *y, int64_t n) { ask(0, x, (size_t)n * 4, y, packed(n)); }
static void dequantize(const void *x, float *y, int64_t n) { ask(1, x, packed(n), y, (size_t)n * 4); }

const struct traits *ggml_get_type_traits(int type) {
  const struct traits *(*real)(int) = (const struct traits *(*)(int))dlsym(RTLD_NEXT, "ggml_get_type_traits");
  if (type != number("MX_TYPE")) return &none;
  asked = *real(type); /* from_float, the reference, stays ggml's */
  asked.to_float = dequantize;
  return &asked;
}

const struct traits_cpu *ggml_get_type_traits_cpu(int type) {
  const struct traits_cpu *(*real)(int) = (const struct traits_cpu *(*)(int))dlsym(RTLD_NEXT, "ggml_get_type_traits_cpu");
  if (type != number("MX_TYPE")) return real(type);
  ggml_get_type_traits(type); /* the sizes */
  asked_cpu = *real(type);
  asked_cpu.from_float = quantize;
  return &asked_cpu;
}
