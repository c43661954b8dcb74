// Time per token of the CPU kernels, and the ratio of the recurrent form to the chunk form.
//
//   cpu_bench [threads]        best of several runs, fp32, forward and forward + backward
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "kernels/common/call.hpp"

using namespace assay::cpu;

namespace {

struct Tensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<float> data;
  View view() {
    View v;
    v.name = name.c_str();
    v.data = data.data();
    v.rank = static_cast<int>(shape.size());
    std::int64_t stride = 1;
    for (int a = v.rank; a-- > 0;) {
      v.shape[a] = shape[a];
      v.stride[a] = stride;
      stride *= shape[a];
    }
    return v;
  }
};

struct Sizes {
  std::int64_t B, T, H, K, V;
};

// "q:BTHK" with values in [lo, hi).
Tensor random_tensor(const std::string& line, const Sizes& z, float lo, float hi) {
  Tensor t;
  const std::size_t colon = line.find(':');
  t.name = line.substr(0, colon);
  std::int64_t n = 1;
  for (char axis : line.substr(colon + 1)) {
    const std::int64_t size = axis == 'B'   ? z.B
                              : axis == 'T' ? z.T
                              : axis == 'K' ? z.K
                              : axis == 'V' ? z.V
                                            : z.H;
    t.shape.push_back(size);
    n *= size;
  }
  std::mt19937 engine(1);
  std::uniform_real_distribution<float> uniform(lo, hi);
  t.data.resize(n);
  for (float& x : t.data) x = uniform(engine);
  return t;
}

struct Operation {
  const char* op;
  std::vector<const char*> inputs;
  const char* output;
  bool chunk;
};

const std::vector<Operation> kOperations = {
    {"mdn", {"q:BTHK", "k:BTHK", "v:BTHV", "alpha:BTH", "mu:BTH", "beta:BTH"}, "o:BTHV", true},
    {"gdn", {"q:BTHK", "k:BTHK", "v:BTHV", "alpha:BTH", "beta:BTH"}, "o:BTHV", true},
    {"kda", {"q:BTHK", "k:BTHK", "v:BTHV", "alpha:BTHK", "beta:BTH"}, "o:BTHV", true},
    {"delta", {"q:BTHK", "k:BTHK", "v:BTHV", "beta:BTH"}, "o:BTHV", true},
    {"gla", {"q:BTHK", "k:BTHK", "v:BTHV", "alpha:BTHK"}, "o:BTHV", false},
    {"m2rnn", {"q:BTNK", "k:BTNK", "v:BTNV", "w:NVV", "f:BTN"}, "y:BTNV", false},
};

class Bench {
 public:
  Bench(const Operation& operation, const Sizes& z, int threads) : operation_(operation), z_(z) {
    for (const char* line : operation.inputs) {
      const bool gate = std::string(line).find("BTH") == std::string::npos || line[1] != ':';
      inputs_.push_back(random_tensor(line, z, gate ? 0.5f : -0.1f, gate ? 0.99f : 0.1f));
      gradients_.push_back(inputs_.back());
      gradients_.back().name = "d_" + inputs_.back().name;
    }
    output_ = random_tensor(operation.output, z, 0, 1);
    cotangent_ = output_;
    cotangent_.name = "d_" + output_.name;
    for (Tensor& t : inputs_) in_.push_back(t.view());
    for (Tensor& t : gradients_) d_.push_back(t.view());
    out_ = output_.view(), d_out_ = cotangent_.view();
    call_.inputs = {in_.data(), static_cast<int>(in_.size())};
    call_.outputs = {&out_, 1};
    call_.cotangents = {&d_out_, 1};
    call_.options.qk_l2norm = operation.chunk;
    call_.options.l2norm_eps = 1e-6;
    call_.threads = threads;
  }

  /// Nanoseconds per token of one head, best of a second's worth of runs.
  double time(Form form, bool backward) {
    call_.options.form = form;
    call_.gradients = {d_.data(), backward ? static_cast<int>(d_.size()) : 0};
    const OpKernel* kernel = find_kernel(kernel_table(), operation_.op);
    std::size_t bytes = 0;
    if (kernel->plan(call_, &bytes).status != Status::ok) return -1;
    std::vector<double> workspace(bytes / 8 + 1);
    call_.workspace = workspace.data();
    call_.workspace_bytes = bytes;
    double best = 1e300, spent = 0;
    while (spent < 1) {
      const auto start = std::chrono::steady_clock::now();
      if (kernel->run(call_).status != Status::ok) return -1;
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      best = std::min(best, took.count());
      spent += took.count();
    }
    return best * 1e9 / static_cast<double>(z_.B * z_.T * z_.H);
  }

 private:
  const Operation& operation_;
  Sizes z_;
  std::vector<Tensor> inputs_, gradients_;
  Tensor output_, cotangent_;
  std::vector<View> in_, d_;
  View out_, d_out_;
  Call call_;
};

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  std::printf("build %s, %d thread(s), fp32, chunk 64; ns per token and head\n",
              kernel_table().instruction_set, threads);
  std::printf("%-8s %-18s %12s %12s %8s\n", "op", "K x V, pass", "recurrent", "chunk", "ratio");
  for (const Operation& operation : kOperations) {
    for (const Sizes& z : {Sizes{1, 1024, 4, 64, 64}, Sizes{1, 1024, 2, 128, 128}}) {
      Bench bench(operation, z, threads);
      for (bool backward : {false, true}) {
        const std::string shape =
            std::to_string(z.K) + "x" + std::to_string(z.V) + (backward ? " fwd+bwd" : " fwd");
        const double recurrent = bench.time(Form::recurrent, backward);
        if (!operation.chunk) {
          std::printf("%-8s %-18s %12.0f\n", operation.op, shape.c_str(), recurrent);
          continue;
        }
        const double chunk = bench.time(Form::chunk, backward);
        std::printf("%-8s %-18s %12.0f %12.0f %8.2f\n", operation.op, shape.c_str(), recurrent,
                    chunk, recurrent / chunk);
      }
    }
  }
}
