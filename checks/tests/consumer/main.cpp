#include <cstdio>

#include "reference/oracle/registry.hpp"

int main() {
  const auto& all = assay::operations();
  for (const auto* operation : all) {
    std::printf("%s\n", operation->schema(nullptr).op.c_str());
  }
  std::printf("%zu operations\n", all.size());
  return all.empty() ? 1 : 0;
}
