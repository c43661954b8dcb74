// Smaller cases out of larger ones, by the schema alone: parts of axes, of packed sequences, of
// what may be left out. Everything else keeps its values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reference/case/schema.hpp"

namespace assay {

/// Keeps these indices of an axis (ascending), in inputs and cotangents alike. Of heads, those of
/// the state; shared tensors keep what these heads read. Of T, tokens; packed sequences get
/// shorter. Nothing when the case does not allow it (a group of heads cut in two, a fixed axis).
std::optional<ValidCase> keep_indices(const ValidCase& c, char axis,
                                      const std::vector<std::int64_t>& indices);
/// The same for [first, first + count).
std::optional<ValidCase> keep_range(const ValidCase& c, char axis, std::int64_t first,
                                    std::int64_t count);

/// A packed case without one of its sequences; one with a single sequence, no longer packed.
std::optional<ValidCase> drop_sequence(const ValidCase& c, std::int64_t sequence);
std::optional<ValidCase> unpacked(const ValidCase& c);

/// Without an optional input or a cotangent; without an option.
std::optional<ValidCase> drop_tensor(const ValidCase& c, const std::string& name);
std::optional<ValidCase> drop_option(const ValidCase& c, const std::string& name);

/// The case with changed data, if that is a case at all.
std::optional<ValidCase> revalidated(Case data);

}  // namespace assay
