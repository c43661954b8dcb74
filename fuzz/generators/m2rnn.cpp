// M²RNN: the clip of the carried gradient, at which the gradient is one no longer by definition.
#include "fuzz/generators/own.hpp"

namespace assay {

const OwnGenerator kM2rnnGenerator = {
    [](Stream& random, CaseRecipe& recipe, std::map<std::string, std::string>& classes) {
      if (random.below(4) != 0) return;
      const std::string clip = random.below(2) == 0 ? "0.5" : "0.01";
      recipe.options.push_back("state_grad_clip=" + clip);
      classes["option state_grad_clip"] = clip;
    },
    [](const CaseRecipe& ordinary) {
      std::vector<CaseRecipe> grid(2, ordinary);
      grid[0].options = {"state_grad_clip=0.25"};
      grid[1].options = {"state_grad_clip=0"};
      return grid;
    }};

}  // namespace assay
