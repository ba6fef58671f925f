/* Puts a quantizer to the test: write the function, compile, run. It exits with 0 if every block is right.
 *
 *   cc -std=c99 -pedantic -Wall driver.c -o driver && ./driver
 */
#include "mxspec_kit.h"

#ifdef KERNEL /* cc -DKERNEL=my_kernel driver.c my_kernel.o */
void KERNEL(const float *x, int rows, uint32_t tensor_scale, uint8_t *codes, uint8_t *scales);
#else
#define KERNEL example
/* An example to replace: MXFP4 by mx-floor. It finds ties by comparison, and the scale from the exponent field. */
static void example(const float *x, int rows, uint32_t tensor_scale, uint8_t *codes, uint8_t *scales) {
  static const double ties[7] = {0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0}; /* between code i and i + 1; a tie goes to the even one */
  int r, i, c;
  (void)tensor_scale;
  for (r = 0; r < rows; r++) {
    uint32_t bits[32], top = 0;
    double unit = 1;
    int e;
    memcpy(bits, x + 32 * r, sizeof bits);
    for (i = 0; i < 32; i++) if ((bits[i] & 0x7FFFFFFFu) > top) top = bits[i] & 0x7FFFFFFFu;
    e = top > 0x7F800000u ? 255 : top == 0x7F800000u ? 254 : (int)(top >> 23) < 2 ? 0 : (int)(top >> 23) - 2;
    scales[r] = (uint8_t)e;
    for (c = 127; c < e; c++) unit *= 2;
    for (c = e; c < 127; c++) unit /= 2;
    for (i = 0; i < 32; i++) {
      double q = (x[32 * r + i] < 0 ? -(double)x[32 * r + i] : (double)x[32 * r + i]) / unit;
      for (c = 0; c < 7 && (q > ties[c] || (q == ties[c] && c % 2)); c++) continue;
      codes[32 * r + i] = (uint8_t)(e == 255 ? 0 : c | (int)(bits[i] >> 31 << 3));
    }
  }
}
#endif

int main(int argc, char **argv) { /* driver [FORMAT [RULE]] */
  int i, wrong = 0;
  const char *format = argc > 1 ? argv[1] : "mxfp4", *rule = argc > 2 ? argv[2] : NULL;
  for (i = 0; i < (int)(sizeof mxk_formats / sizeof *mxk_formats); i++)
    if (!strcmp(format, mxk_formats[i]->name)) wrong += mxk_check(mxk_formats[i], KERNEL, rule, 0, stdout);
  return wrong != 0;
}
