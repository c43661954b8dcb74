#include "fuzz/generators/own.hpp"

namespace assay {

const OwnGenerator* own_generator(const std::string& op) {
  if (op == "mom") return &kMomGenerator;
  if (op == "m2rnn") return &kM2rnnGenerator;
  return nullptr;
}

}  // namespace assay
