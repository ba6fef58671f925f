// Quantize a matrix along both axes in one pass: jobs of rows.cuh and of columns.cuh take turns in one grid. Columns go a
// panel of rows ahead (as many rows as a tile has), so what they read is in L2 when rows read it again.
//
// Compiled with what rows.cuh and columns.cuh are compiled with; MX_THREADS is 32 * MX_WARPS, MX_TILED at most 2.
#include "columns.cuh"
#include "rows.cuh"
namespace mx {

static_assert(MX_THREADS == columns::kThreads && MX_TILED <= 2, "blocks of threads do either job");

// tiles, row_tiles: of the column and row scales. A step is `jobs` blocks of threads, in groups of one for columns and
// `row_jobs` for rows; step_multiplier and step_shift divide by it, group_multiplier and group_shift by a group's size.
extern "C" __global__ void __launch_bounds__(MX_THREADS, columns::kBlocksOfSm)
quantize_both(const void* __restrict__ x, u8* __restrict__ row_codes, u8* __restrict__ row_scales, const float* __restrict__ tensor,
              u8* __restrict__ column_codes, u8* __restrict__ column_scales, i64 pitch, u32 rows, u32 columns, u32 tiles,
              u32 row_tiles, u32 multiplier, u32 shift, u32 jobs, u32 step_multiplier, u32 step_shift, u32 row_jobs,
              u32 group_multiplier, u32 group_shift, i64 high, u64 seed, u32 tensor_bits) {
  const Tensor t = Rules::derive_tensor(tensor_value<Rules>(tensor, tensor_bits));
  const u32 step = (u32)(((u64)blockIdx.x * step_multiplier) >> step_shift), job = blockIdx.x - step * jobs;
  const u32 group = (u32)(((u64)job * group_multiplier) >> group_shift), place = job - group * (row_jobs + 1);
  if (place == 0) {
    const u32 row0 = step * columns::kRows, column0 = group * columns::kColumns;
    if (row0 < rows && column0 < columns)
      columns::quantize_tile({x, column_codes, column_scales, pitch, rows, rows, columns, tiles, seed}, t, row0, column0);
    return;
  }
  if (step == 0) return;
  // The panel before: its threads are those of whole rows.
  const u32 row0 = (step - 1) * columns::kRows, threads_of_row = columns / rows::kValues;
  const u32 first = row0 * threads_of_row, last = (row0 + columns::kRows < rows ? row0 + columns::kRows : rows) * threads_of_row;
  const rows::Arguments a{x, row_codes, row_scales, columns / kBlock, multiplier, shift, row_tiles, seed, 0, pitch, columns, 0, high};
#pragma unroll 1
  for (u32 turn = 0; turn < MX_TURNS; ++turn) {
    const u32 start = first + ((group * row_jobs + place - 1) * MX_TURNS + turn) * MX_THREADS;
    if (start < last) rows::quantize_turn(a, t, start, last);
  }
}
}  // namespace mx
