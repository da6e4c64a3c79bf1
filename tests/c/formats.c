/* ufp4 - a C99 program: every preset by name, the error that chooses a grid, and casts.
 * SPDX-License-Identifier: Apache-2.0
 * Prints one line a fact; tests/c/programs.sh compares them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ufp4/ufp4.h>

enum { rows = 4, cols = 256 };

static void check(int32_t status) {
  if (status == UFP4_OK) return;
  puts(ufp4_error_message());
  exit(1);
}

/* A quantized matrix with memory of its own. */
static ufp4_quantized allocated(const char* name) {
  ufp4_format format;
  ufp4_quantized q;
  check(ufp4_preset(name, &format));
  check(ufp4_quantized_init(&format, rows, cols, NULL, &q));
  q.codes = malloc(q.codes_size), q.scales = malloc(q.scales_size);
  if (q.codes == NULL || q.scales == NULL) exit(1);
  return q;
}
static void release(const ufp4_quantized* q) { free(q->codes), free(q->scales); }

static ufp4_quantized quantized(const char* name, const ufp4_matrix* x, int32_t choose_grid) {
  ufp4_quantize_options options = UFP4_QUANTIZE_OPTIONS_INIT;
  ufp4_quantized q = allocated(name);
  options.choose_grid = choose_grid;
  check(ufp4_quantize(NULL, x, &options, &q));
  return q;
}

/* The same codes and scales? */
static int same(const ufp4_quantized* a, const ufp4_quantized* b) {
  return memcmp(a->codes, b->codes, a->codes_size) == 0 && memcmp(a->scales, b->scales, a->scales_size) == 0;
}

static float largest_difference(const float* a, const float* b) {
  float largest = 0;
  size_t i;
  for (i = 0; i < rows * cols; ++i) {
    const float d = a[i] < b[i] ? b[i] - a[i] : a[i] - b[i];
    if (d > largest) largest = d;
  }
  return largest;
}

static void print_cast(const char* from, const char* to, const ufp4_matrix* x) {
  ufp4_quantized q = quantized(from, x, UFP4_SQUARED_ERROR), as = allocated(to);
  ufp4_cast_report lost = {0, 0, 0, 0, 0};
  check(ufp4_cast(NULL, &q, &as, &lost));
  printf("%s to %s: %d of %d blocks differ, %s\n", from, to, (int)lost.inexact_blocks, (int)lost.blocks,
         lost.noise == 0 ? "nothing is lost" : lost.signal / lost.noise > 10 ? "above 10 dB" : "below 10 dB");
  release(&q), release(&as);
}

int main(void) {
  static const char* names[] = {"nvfp4",     "nv_e1m2",    "nvint4",     "mxfp4",      "mx_e1m2",
                                "mxint4",    "e2m1_f32",   "e1m2_f32",   "int4_f32",   "int8_f32",
                                "mxint8",    "tetrajet2",  "if4",        "hif4",       "mixfp4",
                                "razer",     "mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e3m2", "mxfp6_e2m3"};
  static float values[rows * cols], decoded[rows * cols];
  const ufp4_matrix x = {values, rows, cols, cols, 1, UFP4_F32}, out = {decoded, rows, cols, cols, 1, UFP4_F32};
  ufp4_quantized mse, max, wide, to;
  size_t i, close = 0;
  for (i = 0; i < rows * cols; ++i) values[i] = (float)((i * i * 7 + i * 13) % 101) - 50;
  for (i = 0; i < sizeof names / sizeof *names; ++i) {
    ufp4_quantized q = quantized(names[i], &x, UFP4_SQUARED_ERROR);
    check(ufp4_dequantize(NULL, &q, &out));
    close += largest_difference(values, decoded) <= 50.f / 6; /* half of the widest step of E2M1 */
    release(&q);
  }
  printf("%d presets, %d of them decode to numbers near those quantized\n", (int)i, (int)close);

  mse = quantized("if4", &x, UFP4_SQUARED_ERROR), max = quantized("if4", &x, UFP4_LARGEST_ERROR);
  printf("grids by the largest error: %s\n", same(&mse, &max) ? "the same" : "others");
  release(&mse), release(&max);

  print_cast("mxfp4", "nvfp4", &x);
  print_cast("nv_e1m2", "nvint4", &x);
  print_cast("nvfp4", "mxfp4", &x);
  print_cast("nvfp4", "if4", &x);
  print_cast("if4", "hif4", &x);
  wide = quantized("mxint8", &x, UFP4_SQUARED_ERROR), to = allocated("nvfp4");
  if (ufp4_cast(NULL, &wide, &to, NULL) == UFP4_INVALID_ARGUMENT) printf("%s\n", ufp4_error_message());
  release(&wide), release(&to);
  return 0;
}
