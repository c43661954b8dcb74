// The plug-in as a stranger sees it: loaded, asked and run through its table alone.
#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "kernels/abi/assay_kernel.h"
#include "kernels/tests/problem.hpp"

using namespace assay::cpu;
using namespace assay::cpu::testing;

namespace {

const assay_table& plugin() {
  static const assay_table* table = [] {
    void* library = dlopen(ASSAY_CPU_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    return library ? static_cast<const assay_table*>(dlsym(library, "assay_kernel_table"))
                   : nullptr;
  }();
  REQUIRE(table != nullptr);
  return *table;
}

// A row-major fp32 tensor with its descriptor.
struct Tensor {
  std::string role;
  std::vector<std::int64_t> shape, strides;
  std::vector<float> data;
  assay_tensor descriptor() {
    strides.assign(shape.size(), 1);
    for (std::size_t a = shape.size(); a-- > 1;) strides[a - 1] = strides[a] * shape[a];
    return {role.c_str(),
            {data.data(),
             {ASSAY_DEVICE_CPU, 0},
             static_cast<std::int32_t>(shape.size()),
             {ASSAY_FLOAT, 32, 1},
             shape.data(),
             strides.data(),
             0}};
  }
};

// An fp32 call of `p`; every output and gradient is listed.
class PluginCall {
 public:
  explicit PluginCall(const Problem& p) : expected_(run(p, fp32())) {
    for (const auto& [name, v] : p.inputs) add(name, v, inputs_);
    for (const auto& [name, v] : p.cotangents) add(name, v, cotangents_);
    for (const auto& [name, v] : expected_) {
      const bool gradient = name.rfind("d_", 0) == 0;
      add(name, v, gradient ? gradients_ : outputs_);
    }
    operation_ = p.op;
    call_.struct_size = sizeof call_;
    call_.operation = operation_.c_str();
    const auto list = [](std::vector<Tensor>& tensors, std::vector<assay_tensor>& descriptors) {
      for (Tensor& t : tensors) descriptors.push_back(t.descriptor());
      return descriptors.data();
    };
    call_.inputs = list(inputs_, in_);
    call_.outputs = list(outputs_, out_);
    call_.cotangents = list(cotangents_, d_out_);
    call_.gradients = list(gradients_, d_in_);
    call_.num_inputs = static_cast<std::int32_t>(in_.size());
    call_.num_outputs = static_cast<std::int32_t>(out_.size());
    call_.num_cotangents = static_cast<std::int32_t>(d_out_.size());
    call_.num_gradients = static_cast<std::int32_t>(d_in_.size());
    call_.threads = 1;
  }
  assay_call& call() { return call_; }
  const Tensors& expected() const { return expected_; }
  Tensors results() const {
    Tensors r;
    for (const auto* group : {&outputs_, &gradients_}) {
      for (const Tensor& t : *group) r[t.role] = {t.shape, {t.data.begin(), t.data.end()}};
    }
    return r;
  }

 private:
  static RunSettings fp32() {
    RunSettings s;
    s.dtype = DType::f32;
    return s;
  }
  static void add(const std::string& name, const Values& v, std::vector<Tensor>& to) {
    to.push_back({name, v.shape, {}, {v.data.begin(), v.data.end()}});
  }
  Tensors expected_;
  std::string operation_;
  std::vector<Tensor> inputs_, outputs_, cotangents_, gradients_;
  std::vector<assay_tensor> in_, out_, d_out_, d_in_;
  assay_call call_{};
};

}  // namespace

TEST_CASE("cpu/plugin: the table lists every kernel once", "[cpu][plugin]") {
  const assay_table& table = plugin();
  REQUIRE(table.abi_version == ASSAY_ABI_VERSION);
  REQUIRE(table.struct_size == sizeof(assay_table));
  REQUIRE(table.device_type == ASSAY_DEVICE_CPU);
  std::set<std::string> names;
  for (int i = 0; i < table.num_operations; ++i) names.insert(table.operations[i].name);
  REQUIRE(names.size() == static_cast<std::size_t>(table.num_operations));
  REQUIRE(table.num_operations == kernel_table().count);
  for (const std::string& op : all_operations()) REQUIRE(names.count(op) == 1);
}

TEST_CASE("cpu/plugin: run computes what the kernel computes", "[cpu][plugin]") {
  for (const char* op : {"mdn", "m2rnn", "mom", "lstm"}) {
    PluginCall c(random_problem(op, 41));
    char reason[200] = "";
    REQUIRE(plugin().supports(&c.call(), reason, sizeof reason) == ASSAY_OK);
    std::uint64_t bytes = 0;
    REQUIRE(plugin().workspace_bytes(&c.call(), &bytes) == ASSAY_OK);
    std::vector<double> workspace(bytes / 8 + 1);
    c.call().workspace = workspace.data();
    c.call().workspace_bytes = bytes;
    REQUIRE(plugin().run(&c.call()) == ASSAY_OK);
    REQUIRE(std::string(plugin().last_error()).empty());
    std::string first;
    CAPTURE(op, first);
    REQUIRE(same_bits(c.results(), c.expected(), &first));
  }
}

TEST_CASE("cpu/plugin: what is not done is refused with a reason", "[cpu][plugin]") {
  const auto reason_of = [](PluginCall& c) {
    char reason[200] = "";
    REQUIRE(plugin().supports(&c.call(), reason, sizeof reason) == ASSAY_UNSUPPORTED);
    return std::string(reason);
  };
  PluginCall c(random_problem("mdn", 42));
  c.call().form = ASSAY_FORM_CHUNK_LOG;
  REQUIRE(reason_of(c).find("form") != std::string::npos);
  c.call().form = ASSAY_FORM_ANY;
  const assay_option unknown{"no_such_option", ASSAY_OPTION_INT, 0, 1, 0, nullptr};
  c.call().options = &unknown;
  c.call().num_options = 1;
  REQUIRE(reason_of(c).find("no_such_option") != std::string::npos);
  c.call().num_options = 0;
  c.call().operation = "titans";
  REQUIRE(reason_of(c).find("titans") != std::string::npos);
  c.call().operation = "mdn";
  REQUIRE(plugin().run(&c.call()) == ASSAY_INVALID);  // no workspace
  REQUIRE(std::string(plugin().last_error()).find("workspace") != std::string::npos);
}
