// Times the CUDA kernels of m2rnn: device events around replays of a captured graph, forward and
// backward apart. JSON on standard output.
//
// usage: cuda_m2rnn_bench [--commit ID] [--repeat 20] [--only NAME_OF_SIZE] [--format bf16|fp32]
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <random>
#include <string>
#include <vector>

#include "kernels/m2rnn/m2rnn_passes.hpp"

namespace {

using assay::cpu::Call;
using assay::cpu::DType;
using assay::cpu::View;

void require(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

struct Size {
  const char* name;
  std::int64_t B, T, N, K, V;
  bool shared;  // one head of q and k
};
constexpr Size kSizes[] = {
    {"8, 4096, 16", 8, 4096, 16, 64, 16, true}, {"1, 16384, 64", 1, 16384, 64, 64, 16, true},
    {"4, 4096, 84", 4, 4096, 84, 64, 16, true}, {"16, 2048, 84", 16, 2048, 84, 64, 16, true},
    {"V=32", 8, 4096, 16, 64, 32, true},        {"V=64", 8, 4096, 16, 64, 64, true},
    {"K=128", 8, 4096, 16, 128, 16, true},      {"K=128, V=64", 8, 4096, 16, 128, 64, true},
    {"decode", 1024, 1, 16, 64, 16, true}};

// For compute-sanitizer; only by name.
constexpr Size kSmallSizes[] = {{"small", 2, 50, 4, 64, 16, true},
                                {"small wide", 70, 18, 16, 64, 16, true},
                                {"small odd", 2, 37, 4, 130, 24, true},
                                {"small alone", 2, 37, 3, 16, 64, false}};

enum class Values { normal, gate, weight, zero };

/// Tensors on the device; what was allocated is freed with it.
class Tensors {
 public:
  explicit Tensors(DType format) : format_(format) {}
  ~Tensors() {
    for (void* p : memory_) cudaFree(p);
  }
  void add(const char* name, std::vector<std::int64_t> shape, Values values) {
    add(name, std::move(shape), values, format_);
  }
  void add(const char* name, std::vector<std::int64_t> shape, Values values, DType dtype) {
    View v;
    v.name = name, v.dtype = dtype, v.rank = static_cast<int>(shape.size());
    std::int64_t count = 1;
    for (int a = v.rank; a-- > 0;) {
      v.shape[a] = shape[static_cast<std::size_t>(a)], v.stride[a] = count;
      count *= v.shape[a];
    }
    v.data = allocate(static_cast<std::size_t>(count) * (dtype == DType::f32 ? 4 : 2));
    if (values != Values::zero) fill(v, count, values);
    views_.push_back(v);
  }
  assay::cpu::ViewList list() const { return {views_.data(), static_cast<int>(views_.size())}; }
  void* allocate(std::size_t bytes) {
    void* p = nullptr;
    require(cudaMalloc(&p, std::max<std::size_t>(bytes, 1)), "cudaMalloc");
    memory_.push_back(p);
    return p;
  }

 private:
  void fill(const View& v, std::int64_t count, Values values) {
    const bool narrow = v.dtype == DType::bf16;
    std::vector<std::uint16_t> host(static_cast<std::size_t>(count) * (narrow ? 1 : 2));
    // A table of normal numbers, walked at random: fast, and random enough for a clock.
    static const std::vector<float> table = [] {
      std::mt19937 random(1);
      std::normal_distribution<float> normal;
      std::vector<float> out(1 << 16);
      for (float& x : out) x = normal(random);
      return out;
    }();
    std::uint64_t state = 0x9e3779b97f4a7c15u + views_.size();
    const std::int64_t V = v.shape[v.rank - 1];
    for (std::int64_t i = 0; i < count; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      float x = table[state >> 48];
      if (values == Values::gate) x = 1 / (1 + std::exp(-x));
      if (values == Values::weight) {
        x = 0.5f * x / std::sqrt(static_cast<float>(V)) + (i / V % V == i % V ? 0.5f : 0.0f);
      }
      std::uint32_t bits;
      std::memcpy(&bits, &x, 4);
      if (narrow) {
        host[static_cast<std::size_t>(i)] = static_cast<std::uint16_t>((bits + 0x8000u) >> 16);
      } else {
        std::memcpy(&host[2 * static_cast<std::size_t>(i)], &x, 4);
      }
    }
    require(cudaMemcpy(v.data, host.data(), host.size() * 2, cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  DType format_;
  std::vector<View> views_;
  std::vector<void*> memory_;
};

struct Times {
  double median = 0, least = 0;
};

Times time_graph(const Call& call, bool forward, bool backward, int repeat, cudaStream_t stream) {
  const auto run = [&] {
    const auto out = assay::cuda::run_m2rnn_passes(call, forward, backward, stream);
    if (out.refusal.status != assay::cpu::Status::ok) {
      std::fprintf(stderr, "%s\n", out.refusal.message);
      std::exit(1);
    }
    require(out.error, "run");
  };
  run();
  require(cudaStreamSynchronize(stream), "first run");
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capture");
  run();
  require(cudaStreamEndCapture(stream, &graph), "capture");
  require(cudaGraphInstantiate(&exec, graph, 0), "instantiate");
  cudaEvent_t begin, end;
  require(cudaEventCreate(&begin), "event");
  require(cudaEventCreate(&end), "event");
  std::vector<double> times;
  for (int i = -3; i < repeat; ++i) {
    require(cudaEventRecord(begin, stream), "record");
    require(cudaGraphLaunch(exec, stream), "launch");
    require(cudaEventRecord(end, stream), "record");
    require(cudaEventSynchronize(end), "replay");
    float ms = 0;
    require(cudaEventElapsedTime(&ms, begin, end), "elapsed");
    if (i >= 0) times.push_back(static_cast<double>(ms));
  }
  cudaEventDestroy(begin), cudaEventDestroy(end);
  cudaGraphExecDestroy(exec), cudaGraphDestroy(graph);
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2], times[0]};
}

void bench(const Size& s, DType format, int repeat, bool first) {
  Tensors in(format), out(format), cotangents(format), gradients(format), none(format);
  const std::int64_t Nq = s.shared ? 1 : s.N;
  in.add("q", {s.B, s.T, Nq, s.K}, Values::normal);
  in.add("k", {s.B, s.T, Nq, s.K}, Values::normal);
  in.add("v", {s.B, s.T, s.N, s.V}, Values::normal);
  in.add("w", {s.N, s.V, s.V}, Values::weight);
  in.add("f", {s.B, s.T, s.N}, Values::gate);
  const bool with_state = s.T < 100;
  if (with_state) in.add("h0", {s.B, s.N, s.K, s.V}, Values::normal);
  out.add("y", {s.B, s.T, s.N, s.V}, Values::zero);
  out.add("h_final", {s.B, s.N, s.K, s.V}, Values::zero, DType::f32);
  cotangents.add("d_y", {s.B, s.T, s.N, s.V}, Values::normal);
  gradients.add("d_q", {s.B, s.T, Nq, s.K}, Values::zero);
  gradients.add("d_k", {s.B, s.T, Nq, s.K}, Values::zero);
  gradients.add("d_v", {s.B, s.T, s.N, s.V}, Values::zero);
  gradients.add("d_w", {s.N, s.V, s.V}, Values::zero);
  gradients.add("d_f", {s.B, s.T, s.N}, Values::zero);
  if (with_state) gradients.add("d_h0", {s.B, s.N, s.K, s.V}, Values::zero);

  cudaStream_t stream;
  require(cudaStreamCreate(&stream), "stream");
  Call call;
  call.inputs = in.list(), call.outputs = out.list();
  const Times forward = time_graph(call, true, false, repeat, stream);
  call.cotangents = cotangents.list(), call.gradients = gradients.list();
  std::size_t bytes = 0;
  assay::cuda::m2rnn_kernel.plan(call, &bytes);
  call.workspace = none.allocate(bytes), call.workspace_bytes = bytes;
  const Times saving = time_graph(call, true, false, repeat, stream);
  const Times backward = time_graph(call, false, true, repeat, stream);
  require(cudaStreamDestroy(stream), "stream");
  std::printf(
      "%s  {\"size\": \"%s\", \"B\": %lld, \"T\": %lld, \"N\": %lld, \"K\": %lld, \"V\": %lld, "
      "\"forward_ms\": %.4f, \"forward_least_ms\": %.4f, \"forward_with_checkpoints_ms\": %.4f, "
      "\"backward_ms\": %.4f, \"backward_least_ms\": %.4f, \"workspace_MiB\": %.1f}",
      first ? "" : ",\n", s.name, static_cast<long long>(s.B), static_cast<long long>(s.T),
      static_cast<long long>(s.N), static_cast<long long>(s.K), static_cast<long long>(s.V),
      forward.median, forward.least, saving.median, backward.median, backward.least,
      static_cast<double>(bytes) / (1 << 20));
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** arguments) {
  int repeat = 20;
  std::string commit, command, only, format = "bf16";
  for (int i = 0; i < count; ++i) command += (i ? " " : "") + std::string(arguments[i]);
  for (int i = 1; i + 1 < count; i += 2) {
    if (std::strcmp(arguments[i], "--repeat") == 0)
      repeat = std::max(1, std::atoi(arguments[i + 1]));
    if (std::strcmp(arguments[i], "--commit") == 0) commit = arguments[i + 1];
    if (std::strcmp(arguments[i], "--only") == 0) only = arguments[i + 1];
    if (std::strcmp(arguments[i], "--format") == 0) format = arguments[i + 1];
  }
  cudaDeviceProp card;
  require(cudaGetDeviceProperties(&card, 0), "no device");
  char date[32];
  const std::time_t now = std::time(nullptr);
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  std::printf(
      "{\"command\": \"%s\", \"commit\": \"%s\", \"date\": \"%s\", \"card\": \"%s\", "
      "\"format\": \"%s\", \"repeat\": %d, \"sizes\": [\n",
      command.c_str(), commit.c_str(), date, card.name, format.c_str(), repeat);
  bool first = true;
  const DType dtype = format == "fp32" ? DType::f32 : DType::bf16;
  for (const Size& s : kSizes) {
    if (only.empty() || only == s.name) bench(s, dtype, repeat, first), first = false;
  }
  for (const Size& s : kSmallSizes) {
    if (only == s.name) bench(s, dtype, repeat, first), first = false;
  }
  std::printf("\n]}\n");
}
