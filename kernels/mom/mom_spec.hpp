// The tensors of mom for one update of the fast-weight family: its token inputs once per routed
// memory (`k_mem` [B,T,M,H,K]) and, if there is a shared memory, once more for that (`k_shared`);
// its parameters as they are; its states for all memories ([B,R,H,K,V], the shared one last).
#pragma once

#include "kernels/common/call.hpp"
#include "kernels/common/spec.hpp"

ASSAY_CPU_BEGIN

class MomSpec {
 public:
  MomSpec(const OpSpec& update, bool shared);
  const OpSpec& spec() const { return spec_; }

 private:
  static constexpr int kLength = 24;
  void add(const TensorSpec& t, const char* suffix, bool per_memory);
  const char* text(const char* name, const char* suffix);

  TensorSpec tensors_[kMaxTensors] = {};
  char texts_[4 * kMaxTensors][kLength] = {};
  int texts_used_ = 0;
  OpSpec spec_{"mom", tensors_, 0};
};

/// Is there any tensor of a shared memory?
bool has_shared_memory(const Call& call);

ASSAY_CPU_END
