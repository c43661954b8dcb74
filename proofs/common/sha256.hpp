// SHA-256, for digests of certificates and of normal forms that are too long to print.
#pragma once

#include <string>
#include <string_view>

namespace assay::proofs {

/// The digest in 64 hexadecimal digits.
std::string sha256(std::string_view bytes);

}  // namespace assay::proofs
