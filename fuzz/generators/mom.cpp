// Mixture of memories: how many are selected, and with which update.
#include "fuzz/generators/own.hpp"

namespace assay {

const OwnGenerator kMomGenerator = {
    [](Stream& random, CaseRecipe& recipe, std::map<std::string, std::string>& classes) {
      if (random.below(2) == 0) return;
      const std::string top_k = random.below(2) == 0 ? "1" : "2";
      recipe.options.push_back("top_k=" + top_k);
      classes["option top_k"] = top_k;
    },
    [](const CaseRecipe& ordinary) {
      std::vector<CaseRecipe> grid;
      for (const char* option : {"top_k=1", "top_k=3", "update=delta", "update=mdn", "update=ssd",
                                 "update=gla", "update=kda"}) {
        grid.push_back(ordinary);
        grid.back().options = {option};
      }
      grid.push_back(ordinary);
      grid.back().without = {"k_shared", "v_shared", "alpha_shared", "beta_shared"};
      return grid;
    }};

}  // namespace assay
