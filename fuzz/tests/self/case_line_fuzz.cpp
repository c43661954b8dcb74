// libFuzzer: the parser of case lines. What it accepts, it writes down so that it reads the same.
#include <cstdint>
#include <cstdlib>

#include "fuzz/generators/recipe.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const assay::CaseRecipe recipe =
        assay::parse_recipe({reinterpret_cast<const char*>(data), size});
    if (!(assay::parse_recipe(assay::recipe_line(recipe)) == recipe)) std::abort();
  } catch (const assay::InputError& error) {
    if (std::string(error.what()).find('\n') != std::string::npos) std::abort();
  }
  return 0;
}
