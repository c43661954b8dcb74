// SHA-256 (FIPS 180-4), so that a report can say which bytes it speaks of.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace assay::render {

class Sha256 {
 public:
  void update(std::string_view bytes);
  /// 64 hexadecimal digits; the object is used up.
  std::string finish();

 private:
  void block(const unsigned char* bytes);

  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, 64> buffer_ = {};
  std::uint64_t length_ = 0;  // bytes so far
};

/// Of a file, read piece by piece. Throws InputError when it cannot be read.
std::string sha256_of_file(const std::string& path);

}  // namespace assay::render
