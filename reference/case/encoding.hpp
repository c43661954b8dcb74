// Numbers of a case file as bytes.
#pragma once

#include <string>

#include "reference/case/tensor.hpp"

namespace assay {

/// Fills `tensor.values` or `tensor.integers` from the little-endian bytes of `tensor.dtype`;
/// `bytes` holds element_count(tensor.shape) elements and need not be aligned.
void decode_elements(const char* bytes, CaseTensor& tensor);

/// Appends the little-endian bytes of all elements. Throws InputError naming the index and value of
/// an element that the dtype cannot hold exactly; `where` starts the message.
void encode_elements(const CaseTensor& tensor, const std::string& where, std::string& bytes);

}  // namespace assay
