// ggml's records of e2m1 blocks: 17 bytes of MXFP4 (a scale, 16 bytes of codes: the first 16 elements in the low nibbles, the
// last 16 in the high ones), 36 bytes of NVFP4 (four scales, then four times eight bytes, each of 16 elements in the same way).
#pragma once
#include "decode8.cuh"

namespace mx {

template <int Block>
struct Record;
template <>
struct Record<32> {
  static constexpr int bytes = 17, elements = 32, scales = 1;
};
template <>
struct Record<16> {
  static constexpr int bytes = 36, elements = 64, scales = 4;
};

// Four bytes from any place of memory that starts at a word.
MX_HD u32 read_bytes4(const u32* words, u32 byte) {
#if MX_CHIP
  return __funnelshift_r(words[byte / 4], words[byte / 4 + 1], byte % 4 * 8);
#else
  u32 v;
  memcpy(&v, reinterpret_cast<const u8*>(words) + byte, 4);
  return v;
#endif
}

// Nibbles in the low halves of four bytes, side by side; and back.
MX_HD u32 join_nibbles(u32 bytes) {
  const u32 pairs = (bytes | bytes >> 4) & 0x00FF00FFu;
  return (pairs | pairs >> 8) & 0xFFFFu;
}
MX_HD u32 part_nibbles(u32 nibbles) {
  const u32 pairs = (nibbles | nibbles << 8) & 0x00FF00FFu;
  return (pairs | pairs << 4) & 0x0F0F0F0Fu;
}

// Codes of eight elements of the record at byte `at`, the first one lowest; `eight` counts within the record.
template <int Block>
MX_HD u32 read_eight(const u32* words, u32 at, u32 eight) {
  const u32 first = Block == 32 ? at + 1 + eight % 2 * 8 : at + 4 + eight / 2 * 8;
  const u32 shift = (Block == 32 ? eight / 2 : eight % 2) * 4;
  const u32 low = read_bytes4(words, first) >> shift & 0x0F0F0F0Fu, high = read_bytes4(words, first + 4) >> shift & 0x0F0F0F0Fu;
  return join_nibbles(low) | join_nibbles(high) << 16;
}

// Byte of a record that holds the scale of an eight.
template <int Block>
MX_HD u32 find_scale_byte(u32 eight) {
  return Block == 32 ? 0 : eight / 2;
}

// The record of packed codes and scales.
template <int Block>
MX_HD void write_record(const u32* codes, const u8* scales, u8* record) {
  constexpr int words = Record<Block>::elements / 8;
#pragma unroll
  for (int i = 0; i < Record<Block>::scales; ++i) record[i] = scales[i];
#pragma unroll
  for (int i = 0; i < words; ++i) {
    // Bytes 4 i to 4 i + 3 of the codes: nibbles of one word, and of the word as far behind it as a half is long.
    const int from = Block == 32 ? i / 2 : i / 2 * 2, other = Block == 32 ? from + 2 : from + 1, half = i % 2 * 16;
    const u32 v = part_nibbles(codes[from] >> half & 0xFFFFu) | part_nibbles(codes[other] >> half & 0xFFFFu) << 4;
#pragma unroll
    for (int j = 0; j < 4; ++j) record[Record<Block>::scales + 4 * i + j] = (u8)(v >> (8 * j));
  }
}

}  // namespace mx
