// Prints where CUTLASS puts scales and sparse metadata, by its own layouts, compiled for the host.
// Arguments: kind rows columns. One offset for each item, row by row: scales in bytes, metadata in nibbles.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cute/tensor.hpp"
#include "cute/algorithm/tensor_algorithms.hpp"
#include "cute/atom/mma_traits_sm120.hpp"
#include "cutlass/cutlass.h"
#include "cutlass/detail/sm100_blockscaled_layout.hpp"
#include "cutlass/gemm/collective/builders/sm1xx_sparse_config.inl"

using namespace cute;

template <int Vector>
void print_scales(int rows, int columns) {
  using Config = cutlass::detail::Sm1xxBlockScaledConfig<Vector>;
  auto layout = Config::tile_atom_to_shape_SFA(make_shape(rows, 128, columns * Vector, 1));
  for (int m = 0; m < rows; ++m)
    for (int c = 0; c < columns; ++c) {
      long first = layout(m, c * Vector, 0);
      for (int k = 1; k < Vector; ++k)
        if (layout(m, c * Vector + k, 0) != first) std::exit(3);
      std::printf("%ld\n", first);
    }
}

// `Group`: logical elements of a nibble. Offsets of E are in logical elements, so a nibble is `Group` of them.
template <class A, class E, int Group>
void print_metadata(int rows, int columns) {
  using Config = cutlass::Sm1xxGemmSparseConfig<A, cutlass::layout::RowMajor, E>;
  auto layout = Config::fill_layoutE(make_tuple(rows, 128, columns * Group, 1));
  for (int m = 0; m < rows; ++m)
    for (int c = 0; c < columns; ++c) {
      long first = layout(m, c * Group, 0);
      for (int k = 1; k < Group; ++k)
        if (layout(m, c * Group + k, 0) != first + k) std::exit(3);
      if (first % Group) std::exit(4);
      std::printf("%ld\n", first / Group);
    }
}

// The bytes of one register of four e2m1 codes, as CUTLASS shifts them for mma kind::f8f6f4. The codes number the items.
void print_shifted(int rows, int columns) {
  using Op = SM120_16x8x32_TN<cutlass::float_e2m1_t, cutlass::float_e2m1_t, float>;
  for (int i = 0; i < rows * columns; i += 4) {
    uint32_t word = 0;
    for (int j = 0; j < 4; ++j) word |= uint32_t((i + j) % 16) << 8 * j;
    auto tensor = make_tensor(&word, Layout<_1>{});
    fp4_shift_A(Op{}, tensor);
    for (int j = 0; j < 4; ++j) std::printf("%u\n", word >> 8 * j & 255);
  }
}

int main(int count, char** words) {
  if (count != 4) return 2;
  const char* kind = words[1];
  const int rows = std::atoi(words[2]), columns = std::atoi(words[3]);
  using E8 = sparse_elem<8, uint8_t>;
  if (!std::strcmp(kind, "shifted")) print_shifted(rows, columns);
  else if (!std::strcmp(kind, "scales-16")) print_scales<16>(rows, columns);
  else if (!std::strcmp(kind, "scales-32")) print_scales<32>(rows, columns);
  else if (!std::strcmp(kind, "f4")) print_metadata<sparse_elem<4, uint8_t>, sparse_elem<16, uint8_t>, 8>(rows, columns);
  else if (!std::strcmp(kind, "e4m3")) print_metadata<sparse_elem<2, cutlass::float_e4m3_t>, E8, 4>(rows, columns);
  else if (!std::strcmp(kind, "e2m3")) print_metadata<sparse_elem<2, cutlass::float_e2m3_t>, E8, 4>(rows, columns);
  else if (!std::strcmp(kind, "e2m1")) print_metadata<sparse_elem<2, cutlass::float_e2m1_t>, E8, 4>(rows, columns);
  else if (!std::strcmp(kind, "int8")) print_metadata<sparse_elem<2, int8_t>, E8, 4>(rows, columns);
  else if (!std::strcmp(kind, "tf32")) print_metadata<sparse_elem<2, cutlass::tfloat32_t>, sparse_elem<4, uint8_t>, 2>(rows, columns);
  else if (!std::strcmp(kind, "f16")) print_metadata<sparse_elem<2, cutlass::half_t>, E8, 4>(rows, columns);
  else return 2;
}
