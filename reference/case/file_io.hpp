// Whole files: read with a limit, written atomically.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace assay {

/// Bytes of memory of this machine.
std::uint64_t machine_memory();

/// All bytes of a regular file. Throws InputError naming the file: missing, a directory, not a
/// regular file, unreadable, larger than `limit` bytes, changed while it was read.
std::string read_file_bytes(const std::string& path, std::uint64_t limit);

/// Throws InputError when write_file_atomic could not write there: no such folder, no permission,
/// something else than a file.
void check_writable(const std::string& path);

/// Writes a temporary file beside `path`, then renames it to `path`. Throws InputError and leaves
/// nothing behind when that fails.
void write_file_atomic(const std::string& path, std::string_view bytes);

}  // namespace assay
