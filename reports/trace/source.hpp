// The numbers of a safetensors file, in memory or read when they are wanted.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "reference/case/tensor.hpp"

namespace assay::reports {

/// A file whose header is read and whose data stays on the disk.
class StreamedFile {
 public:
  /// Throws InputError for a header that does not fit the format or the file.
  explicit StreamedFile(const std::string& path);
  ~StreamedFile();
  StreamedFile(const StreamedFile&) = delete;
  StreamedFile& operator=(const StreamedFile&) = delete;

  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// dtypes and shapes; no values.
  const std::map<std::string, CaseTensor>& tensors() const { return tensors_; }
  /// Elements [first, first + count) of a tensor, as `values` or `integers` of the result.
  CaseTensor read(const std::string& name, std::int64_t first, std::int64_t count) const;

 private:
  void parse(const std::string& header, std::uint64_t data_bytes);

  std::string path_;
  int fd_ = -1;
  std::uint64_t data_begin_ = 0;
  std::map<std::string, std::string> metadata_;
  std::map<std::string, CaseTensor> tensors_;
  std::map<std::string, std::uint64_t> begin_;
};

}  // namespace assay::reports
