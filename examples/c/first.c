/* ufp4 - a first program in C99: quantizes two matrices, multiplies them, and shows an error message.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   g++ -std=c++20 -O3 -shared -fPIC -I include cmake/c.cpp -Wl,--version-script=cmake/c.map -o libufp4.so -pthread
 *   gcc -std=c99 -I include examples/c/first.c -L . -lufp4 -Wl,-rpath,. -o first && ./first
 */
#include <stdio.h>
#include <stdlib.h>
#include <ufp4/ufp4.h>

static void require(int32_t status) {
  if (status == UFP4_OK) return;
  fprintf(stderr, "%s\n", ufp4_error_message());
  exit(1);
}

/* A matrix of floats, by rows. */
static ufp4_matrix matrix(float *data, size_t rows, size_t cols) {
  ufp4_matrix m;
  m.data = data, m.rows = rows, m.cols = cols;
  m.row_stride = (ptrdiff_t)cols, m.col_stride = 1;
  m.dtype = UFP4_F32;
  return m;
}

static ufp4_quantized quantized(const char *preset, const ufp4_matrix *x, const ufp4_transform *transform) {
  ufp4_format format;
  ufp4_quantized q;
  require(ufp4_preset(preset, &format));
  require(ufp4_quantized_init(&format, x->rows, x->cols, transform, &q));
  q.codes = malloc(q.codes_size);
  q.scales = malloc(q.scales_size);
  require(ufp4_quantize(NULL, x, NULL, &q));
  return q;
}

int main(void) {
  enum { M = 2, N = 3, K = 64 };
  static float x[M * K], w[N * K], y[M * N];
  for (int i = 0; i < M * K; ++i) x[i] = (float)(i * 7919 % 1009) - 504.0f;
  for (int i = 0; i < N * K; ++i) w[i] = (float)(i * 31 % 17) / 8.0f - 1.0f;
  ufp4_matrix xm = matrix(x, M, K), wm = matrix(w, N, K), ym = matrix(y, M, N);

  ufp4_transform rht;
  require(ufp4_random_hadamard(16, 42, &rht));
  ufp4_quantized qx = quantized("e1m2_f32", &xm, &rht), qw = quantized("e1m2_f32", &wm, &rht);

  ufp4_gemm_options options = UFP4_GEMM_OPTIONS_INIT;
  options.accumulate = UFP4_EXACT_BLOCKS;
  require(ufp4_gemm(NULL, &qx, &qw, &ym, &options));
  for (int i = 0; i < M; ++i) printf("%10.3f %10.3f %10.3f\n", y[i * N], y[i * N + 1], y[i * N + 2]);

  ym.cols = 2;
  if (ufp4_gemm(NULL, &qx, &qw, &ym, NULL) == UFP4_INVALID_ARGUMENT) printf("%s\n", ufp4_error_message());
  free(qx.codes), free(qx.scales), free(qw.codes), free(qw.scales);
  return 0;
}
