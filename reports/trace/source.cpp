#include "reports/trace/source.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "reference/case/encoding.hpp"
#include "reference/case/json.hpp"
#include "reference/case/text.hpp"

namespace assay::reports {
namespace {

constexpr std::uint64_t kMaxHeader = 100'000'000;  // the limit of the format's own library

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw InputError(printable(path) + ": " + what);
}

void read_all(int fd, const std::string& path, char* out, std::uint64_t count, std::uint64_t at) {
  while (count > 0) {
    const ssize_t got = pread(fd, out, count, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(path, std::string("cannot be read: ") + std::strerror(errno));
    if (got == 0) fail(path, "became shorter while it was read");
    out += got;
    at += static_cast<std::uint64_t>(got);
    count -= static_cast<std::uint64_t>(got);
  }
}

}  // namespace

StreamedFile::StreamedFile(const std::string& path) : path_(path) {
  fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0) fail(path, std::string("cannot be opened: ") + std::strerror(errno));
  struct stat info {};
  if (fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode)) fail(path, "is not a regular file");
  const std::uint64_t size = static_cast<std::uint64_t>(info.st_size);
  std::uint64_t length = 0;
  if (size < 8) fail(path, "truncated: " + std::to_string(size) + " bytes");
  read_all(fd_, path, reinterpret_cast<char*>(&length), 8, 0);
  if (length > kMaxHeader || length > size - 8) {
    fail(path, "header length " + std::to_string(length) + " does not fit the file of " +
                   std::to_string(size) + " bytes");
  }
  std::string header(length, '\0');
  read_all(fd_, path, header.data(), length, 8);
  data_begin_ = 8 + length;
  parse(header, size - data_begin_);
}

StreamedFile::~StreamedFile() {
  if (fd_ >= 0) close(fd_);
}

void StreamedFile::parse(const std::string& header, std::uint64_t data_bytes) {
  const nlohmann::json json = parse_json_object(header, printable(path_) + ": header");
  for (const auto& [name, entry] : json.items()) {
    const std::string where = "tensor " + quote_name(name) + ": ";
    try {
      if (name == "__metadata__") {
        for (const auto& [key, text] : entry.items()) metadata_[key] = text.get<std::string>();
        continue;
      }
      CaseTensor tensor;
      const auto dtype = parse_dtype(entry.at("dtype").get<std::string>());
      if (!dtype) fail(path_, where + "dtype is none of F64 F32 F16 BF16 I64 I32");
      tensor.dtype = *dtype;
      for (const auto& axis : entry.at("shape")) {
        if (!axis.is_number_unsigned()) fail(path_, where + "shape: must be integers >= 0");
        tensor.shape.push_back(axis.get<std::int64_t>());
      }
      const auto begin = entry.at("data_offsets").at(0).get<std::uint64_t>();
      const auto end = entry.at("data_offsets").at(1).get<std::uint64_t>();
      const auto count = checked_element_count(tensor.shape);
      const bool fits = count && begin <= end && end <= data_bytes &&
                        static_cast<std::uint64_t>(*count) <= data_bytes &&
                        end - begin == static_cast<std::uint64_t>(*count) * dtype_size(*dtype);
      if (!fits) fail(path_, where + "its bytes do not fit its shape or the file (truncated?)");
      begin_[name] = begin;
      tensors_[name] = std::move(tensor);
    } catch (const nlohmann::json::exception&) {
      fail(path_, where + "malformed header entry");
    }
  }
}

CaseTensor StreamedFile::read(const std::string& name, std::int64_t first,
                              std::int64_t count) const {
  CaseTensor piece;
  piece.dtype = tensors_.at(name).dtype;
  piece.shape = {count};
  const std::uint64_t size = dtype_size(piece.dtype);
  std::string bytes(static_cast<std::uint64_t>(count) * size, '\0');
  read_all(fd_, path_, bytes.data(), bytes.size(),
           data_begin_ + begin_.at(name) + static_cast<std::uint64_t>(first) * size);
  decode_elements(bytes.data(), piece);
  return piece;
}

}  // namespace assay::reports
