// The parts of `validate` (schema.hpp), each of which throws InputError on the first thing wrong.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reference/case/schema.hpp"

namespace assay {

inline constexpr const char* kCuSeqlens = "cu_seqlens";

/// No tensor may have more elements than this, so that no product of axes overflows and a file of a
/// few bytes (T = 0) cannot ask for a state of exabytes.
inline constexpr std::int64_t kMaxElements = std::int64_t{1} << 31;

/// Throws "<source>: <what>", with the operation in place of a missing source.
[[noreturn]] void refuse(const Case& data, const std::string& what);
/// Throws "<source>: tensor '<name>' [shape]: <what>".
[[noreturn]] void refuse_tensor(const Case& data, const std::string& name, const std::string& what);

/// Every tensor is an input, a cotangent or cu_seqlens, has the right dtype and as many elements
/// as its shape says; required inputs are there, and one of each gate and its logarithm.
void check_names(const Case& data, const Schema& schema);

/// Options are known, of their type, in range. Integers given for reals become reals.
void check_options(Case& data, const Schema& schema);

/// Fits all shapes together; `cu_seqlens` is empty when the case is not packed.
Sizes solve_axes(const Case& data, const Schema& schema,
                 const std::vector<std::int64_t>& cu_seqlens);

/// No NaN, no infinity but -inf in a logarithmic gate; what lies outside its domain is noted.
std::vector<DomainNote> check_values(const Case& data, const Schema& schema);

/// Axes as a case holds them: in packed cases the B of a state is S.
std::string stored_axes(const std::string& axes, bool packed_state);

}  // namespace assay
