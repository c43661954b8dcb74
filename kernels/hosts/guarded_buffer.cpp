#include "kernels/hosts/guarded_buffer.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <new>

#include "kernels/hosts/cuda_runtime.hpp"

namespace assay::hosts {
namespace {

// NaN in fp16, bf16 and, doubled, in fp32; with a payload that no arithmetic produces.
constexpr std::uint16_t kPattern = 0x7FA5;
// The same for fp64; as an int64 it is far outside any index.
constexpr std::uint64_t kPattern64 = 0x7FFA57FA57FA57FA;

std::size_t page_size() {
  static const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

std::size_t round_up(std::size_t n, std::size_t unit) { return (n + unit - 1) / unit * unit; }

/// The pattern's byte at an address: its phase depends on nothing else, whatever the payload's end.
char zone_byte(const char* at) {
  const bool high = (reinterpret_cast<std::uintptr_t>(at) & 1) != 0;
  return static_cast<char>(high ? kPattern >> 8 : kPattern & 0xFF);
}

void paint(char* begin, const char* end) {
  for (char* p = begin; p != end; ++p) *p = zone_byte(p);
}

struct Damage {
  std::size_t count = 0;
  const char* nearest = nullptr;
};

}  // namespace

GuardedBuffer::GuardedBuffer(std::size_t size, CudaRuntime* device) : size_(size), device_(device) {
  if (size > SIZE_MAX / 4) throw std::bad_alloc();
  // The zone after the payload begins at its very last byte and ends at the guard.
  const std::size_t zones = round_up(kZone + size + kZone, page_size());
  region_size_ = kGuard + zones + kGuard;
  void* mapped = mmap(nullptr, region_size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  region_ = static_cast<char*>(mapped);
  payload_ = region_ + kGuard + kZone;
  if (mprotect(region_ + kGuard, zones, PROT_READ | PROT_WRITE) != 0) {
    munmap(region_, region_size_);
    throw std::bad_alloc();
  }
  paint_zones();
  if (device_ == nullptr) return;
  try {
    device_image_ = static_cast<char*>(device_->allocate(image_size()));
  } catch (...) {
    munmap(region_, region_size_);
    throw;
  }
}

GuardedBuffer::~GuardedBuffer() {
  if (device_image_ != nullptr) device_->release(device_image_);
  munmap(region_, region_size_);
}

char* GuardedBuffer::zones_end() const { return region_ + region_size_ - kGuard; }

std::size_t GuardedBuffer::image_size() const {
  return static_cast<std::size_t>(zones_end() - zone_begin());
}

void* GuardedBuffer::kernel_data() const {
  return device_image_ != nullptr ? device_image_ + kZone : payload_;
}

void GuardedBuffer::paint_zones() {
  paint(zone_begin(), payload_);
  paint(payload_ + size_, zones_end());
}

void GuardedBuffer::poison(std::size_t element_bytes) {
  std::size_t i = 0;
  for (; i + element_bytes <= size_; i += element_bytes) write_poison(payload_ + i, element_bytes);
  std::memset(payload_ + i, 0x7F, size_ - i);
  paint_zones();
}

void GuardedBuffer::upload() {
  if (device_image_ != nullptr) device_->to_device(device_image_, zone_begin(), image_size());
}

void GuardedBuffer::download() {
  if (device_image_ != nullptr) device_->to_host(zone_begin(), device_image_, image_size());
}

std::string GuardedBuffer::zone_damage() const {
  Damage before, after;
  for (const char* p = payload_ - 1; p >= zone_begin(); --p) {
    if (*p != zone_byte(p) && before.count++ == 0) before.nearest = p;
  }
  const char* end = payload_ + size_;
  for (const char* p = end; p != zones_end(); ++p) {
    if (*p != zone_byte(p) && after.count++ == 0) after.nearest = p;
  }
  std::string text;
  if (before.count != 0) {
    text = std::to_string(before.count) + " bytes changed before the beginning, the nearest " +
           std::to_string(payload_ - before.nearest) + " bytes from it";
  }
  if (after.count != 0) {
    if (!text.empty()) text += "; ";
    text += std::to_string(after.count) + " bytes changed after the end, the nearest " +
            std::to_string(after.nearest - end) + " bytes from it";
  }
  return text;
}

bool is_poison(const char* element, std::size_t element_bytes) {
  char pattern[8];
  write_poison(pattern, element_bytes);
  return std::memcmp(element, pattern, element_bytes) == 0;
}

void write_poison(char* element, std::size_t element_bytes) {
  if (element_bytes == 8) {
    std::memcpy(element, &kPattern64, 8);
    return;
  }
  for (std::size_t i = 0; i + 2 <= element_bytes; i += 2) {
    std::memcpy(element + i, &kPattern, 2);
  }
}

}  // namespace assay::hosts
