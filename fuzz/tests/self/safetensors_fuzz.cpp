// libFuzzer: the reader of safetensors files, and of cases in them. Whatever the bytes, the answer
// is a file or an InputError of one line.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "reference/case/safetensors.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    assay::SafetensorsFile file = assay::parse_safetensors(bytes, "input", 1 << 20);
    // What was read can be written, and reads as the same.
    const std::string again = assay::safetensors_bytes(file);
    if (assay::safetensors_bytes(assay::parse_safetensors(again, "again")) != again) std::abort();
    assay::case_from_file(std::move(file), "input");
  } catch (const assay::InputError& error) {
    if (std::string(error.what()).find('\n') != std::string::npos) std::abort();
  }
  return 0;
}
