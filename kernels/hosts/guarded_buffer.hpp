// Memory that notices: red zones and guards around a payload that can be poisoned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace assay::hosts {

class CudaRuntime;

/// guard | red zone | payload | red zone | guard. Red zones hold a NaN pattern of fp16,
/// bf16 and fp32, so that a read outside shows in results and a write outside in the zone; a write
/// far outside hits a guard, which no one may touch. With a CUDA runtime the same image lies on the
/// device too: it is uploaded before a kernel runs and downloaded afterwards, and all checks look
/// at the download.
class GuardedBuffer {
 public:
  static constexpr std::size_t kZone = 4096;
  static constexpr std::size_t kGuard = 1 << 20;  // of address space; takes no memory

  /// Throws std::bad_alloc. `device` null: host memory only.
  GuardedBuffer(std::size_t size, CudaRuntime* device);
  ~GuardedBuffer();
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  /// The payload in host memory, aligned to 256 bytes.
  char* data() const { return payload_; }
  std::size_t size() const { return size_; }
  std::string_view bytes() const { return {payload_, size_}; }
  /// The payload where a kernel sees it.
  void* kernel_data() const;

  /// Fills the payload with the poison of elements of that many bytes, and both red zones.
  void poison(std::size_t element_bytes);
  /// Fills both red zones.
  void paint_zones();
  void upload();
  void download();

  /// "" when the zones are whole, else "2 bytes changed, the first 4 bytes after the end".
  std::string zone_damage() const;

  /// First and one past the last byte of zones and guards (crash_report.hpp).
  const char* region_begin() const { return region_; }
  const char* region_end() const { return region_ + region_size_; }

 private:
  char* zone_begin() const { return payload_ - kZone; }
  char* zones_end() const;
  std::size_t image_size() const;

  std::size_t size_, region_size_ = 0;
  char* region_ = nullptr;
  char* payload_ = nullptr;
  CudaRuntime* device_;
  char* device_image_ = nullptr;
};

/// Is this element (2, 4 or 8 bytes) still the poison?
bool is_poison(const char* element, std::size_t element_bytes);

/// Writes one element of poison.
void write_poison(char* element, std::size_t element_bytes);

}  // namespace assay::hosts
