// Text for messages and options: names a terminal can show, numbers that read back exactly,
// the nearest known name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

/// `text` as one line that is safe on a terminal: control characters, separators that break a line
/// and bytes that are not UTF-8 become \n, \x1b, ...; longer than `limit` bytes is cut with "...".
std::string printable(std::string_view text, std::size_t limit = 160);

/// 'name', printable.
std::string quote_name(std::string_view name);

/// Is every byte part of well-formed UTF-8 (no surrogates, no overlong forms)?
bool is_utf8(std::string_view text);

/// The known name with the smallest edit distance, empty when none is near enough to suggest.
std::string nearest_name(const std::string& name, const std::vector<std::string>& known);

/// "; did you mean 'x'?", or "" when nothing is near.
std::string did_you_mean(const std::string& name, const std::vector<std::string>& known);

/// Shortest decimal that reads back as the same double; "nan", "inf", "-inf".
std::string number_text(double value);

/// The whole of `text` as a number ("inf" and "-inf" are real numbers here), or nothing.
std::optional<std::int64_t> parse_integer(std::string_view text);
std::optional<double> parse_real(std::string_view text);

/// Parts between separators; the empty text has no parts.
std::vector<std::string> split(std::string_view text, char separator);
std::string join(const std::vector<std::string>& parts, const std::string& separator);

}  // namespace assay
