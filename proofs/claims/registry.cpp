#include <algorithm>
#include <stdexcept>

#include "proofs/claims/claim.hpp"

namespace assay::proofs {

void claims_of_all_families(ClaimList& list);
void claims_of_operations(ClaimList& list);

const std::vector<Claim>& all_claims() {
  static const std::vector<Claim> claims = [] {
    ClaimList list;
    claims_of_all_families(list);
    claims_of_operations(list);
    std::vector<Claim> all = list.take();
    std::sort(all.begin(), all.end(), [](const Claim& a, const Claim& b) { return a.id < b.id; });
    for (std::size_t i = 1; i < all.size(); ++i) {
      if (all[i].id == all[i - 1].id) throw std::logic_error("two claims are called " + all[i].id);
    }
    return all;
  }();
  return claims;
}

}  // namespace assay::proofs
