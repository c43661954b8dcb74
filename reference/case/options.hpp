// Options of a case as text: the JSON of the metadata `assay.options`, and `key=value` of the
// command line.
#pragma once

#include <string>
#include <string_view>

#include "reference/case/schema.hpp"

namespace assay {

/// A JSON object of booleans, numbers and strings. Integers stay integers, everything written with
/// a point or an exponent is real. Throws InputError, one line starting with `where`.
Options parse_options(std::string_view text, const std::string& where);

/// The inverse: reals keep a point or an exponent and read back as the same double. Throws
/// InputError for a real that is not finite or a string that is not UTF-8 (JSON has neither).
std::string options_text(const Options& options);

/// `text` as a value of the option's type ("true", "16", "0.125", "gdn"). Throws InputError.
OptionValue option_from_text(const OptionSpec& spec, const std::string& text);

/// An option's value for messages: 16, 0.125, true, 'gdn'.
std::string option_value_text(const OptionValue& value);
/// "a boolean", "an integer", "a real number", "a string".
std::string option_type_text(OptionType type);

}  // namespace assay
