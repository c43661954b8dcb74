// One call of a plug-in with all that must be true around it: guarded buffers, poison, comparison.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "kernels/hosts/guarded_buffer.hpp"
#include "kernels/hosts/plugin.hpp"
#include "kernels/hosts/safetensors_view.hpp"

namespace assay::hosts {

/// How inputs and cotangents lie in memory.
enum class Layout {
  plain,         // row-major without gaps
  strided_rows,  // rows with gaps between them, and an offset
  strided,       // gaps between elements too
};

struct TensorRequest {
  std::string role, dtype;
  Shape shape;
};

using OptionValue = std::variant<bool, std::int64_t, double, std::string>;

struct CallRequest {
  std::string operation;
  std::vector<StoredTensor> inputs, cotangents;  // bytes outlive the call
  std::vector<TensorRequest> outputs, gradients;
  std::map<std::string, OptionValue> options;
  std::int32_t form = ASSAY_FORM_ANY;
  std::int64_t chunk = 0;
  std::int32_t threads = 0;
  Layout layout = Layout::plain;
  bool fresh_buffers = false;  // else those of the last call serve again where sizes agree
};

/// A rule that the kernel broke, with the kinds of the verdict's hygiene findings.
struct Finding {
  std::string kind, tensor, detail;
};

struct CallResult {
  Outcome outcome;
  std::vector<Finding> findings;
  /// Outputs and gradients, when the outcome is ASSAY_OK; the bytes live until the next call.
  std::vector<StoredTensor> results;
  double seconds = 0;
  bool ran = false;          // `run` was called and came back
  bool device_lost = false;  // a CUDA error: the process is of no further use
};

/// Keeps buffers from call to call.
class CallFrame {
 public:
  explicit CallFrame(const Plugin& plugin);
  ~CallFrame();

  CallResult call(const CallRequest& request);

 private:
  struct Placed;

  Placed place(const std::string& slot, const std::string& role, const std::string& dtype,
               const Shape& shape, Layout layout, bool fresh);
  Placed place_input(const std::string& slot, const StoredTensor& tensor,
                     const CallRequest& request);
  GuardedBuffer& buffer(const std::string& slot, std::size_t size, bool fresh);
  void run(assay_call& call, const CallRequest& request, CallResult& result);
  void inspect(const std::vector<Placed>& read, const std::vector<Placed>& written,
               CallResult& result);

  const Plugin& plugin_;
  std::unique_ptr<CudaRuntime> device_;
  std::map<std::string, std::unique_ptr<GuardedBuffer>> buffers_;  // by slot
  std::set<std::string> used_;                                     // slots of this call
};

}  // namespace assay::hosts
