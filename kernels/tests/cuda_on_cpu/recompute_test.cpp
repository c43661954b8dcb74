// The way back window by window against the way back with everything stored, on the CPU: the bits
// must be the same, in less memory.
#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "kernels/abi/assay_kernel.h"

namespace {

const assay_table& plugin() {
  static const assay_table* table = [] {
    void* library = dlopen(ASSAY_CUDA_ON_CPU_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    return library ? static_cast<const assay_table*>(dlsym(library, "assay_kernel_table"))
                   : nullptr;
  }();
  REQUIRE(table != nullptr);
  return *table;
}

using Shape = std::vector<std::int64_t>;

/// Row-major, bf16 or fp32 or int64.
struct Tensor {
  std::string role;
  assay_dtype dtype;
  Shape shape, strides;
  std::vector<char> bytes;

  Tensor(std::string name, assay_dtype type, Shape axes)
      : role(std::move(name)), dtype(type), shape(std::move(axes)), strides(shape.size(), 1) {
    std::int64_t count = 1;
    for (std::size_t a = shape.size(); a-- > 0;) strides[a] = count, count *= shape[a];
    bytes.assign(static_cast<std::size_t>(count) * dtype.bits / 8, '\x5a');
  }
  void set(std::size_t i, float x) {
    std::uint32_t u;
    std::memcpy(&u, &x, 4);
    if (dtype.bits == 32) {
      std::memcpy(bytes.data() + 4 * i, &u, 4);
    } else {
      const auto half = static_cast<std::uint16_t>(u >> 16);
      std::memcpy(bytes.data() + 2 * i, &half, 2);
    }
  }
  assay_tensor descriptor() {
    return {role.c_str(),
            {bytes.data(),
             {ASSAY_DEVICE_CPU, 0},
             static_cast<std::int32_t>(shape.size()),
             dtype,
             shape.data(),
             strides.data(),
             0}};
  }
};

constexpr assay_dtype kBf16 = {ASSAY_BFLOAT, 16, 1}, kF32 = {ASSAY_FLOAT, 32, 1};
constexpr assay_dtype kI64 = {ASSAY_INT, 64, 1};

struct Sizes {
  std::int64_t B, T, H, K, V;
  Shape cu_seqlens;
  bool l2norm = false;
  assay_dtype rows = kBf16;  // of q, k, v and o
};

struct Results {
  std::map<std::string, std::vector<char>> bytes;
  std::uint64_t workspace = 0;
};

/// A call of mdn, gdn or mdn_fused_gates with every output and gradient.
Results run(const std::string& op, const Sizes& n, std::int64_t recompute) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<float> any(-1, 1), gate(0.7f, 1), key(-0.2f, 0.2f);
  const auto filled = [&](const char* name, assay_dtype type, const Shape& shape, auto& numbers) {
    Tensor t(name, type, shape);
    for (std::size_t i = 0; i < t.bytes.size() * 8 / type.bits; ++i) t.set(i, numbers(random));
    return t;
  };
  const bool momentum = op != "gdn", made = op == "mdn_fused_gates";
  const bool packed = !n.cu_seqlens.empty();
  const std::int64_t sequences = packed ? static_cast<std::int64_t>(n.cu_seqlens.size()) - 1 : n.B;
  const Shape keys = {n.B, n.T, n.H, n.K}, values = {n.B, n.T, n.H, n.V}, gates = {n.B, n.T, n.H};
  const Shape states = {sequences, n.H, n.K, n.V};
  std::vector<Tensor> in = {filled("q", n.rows, keys, key), filled("k", n.rows, keys, key),
                            filled("v", n.rows, values, any), filled("s0", kF32, states, any)};
  std::vector<Tensor> out = {{"o", n.rows, values}, {"s_final", kF32, states}};
  std::vector<Tensor> d_out = {filled("d_o", n.rows, values, any),
                               filled("d_s_final", kF32, states, any)};
  for (const char* name : {"alpha", "beta", "mu", "eta"}) {
    if (!momentum && (*name == 'm' || *name == 'e')) continue;
    in.push_back(filled((made ? std::string("x_") + name : name).c_str(), kF32, gates,
                        *name == 'e' ? any : gate));
  }
  for (const char* name : {"a_alpha", "b_alpha", "a_mu", "b_mu"}) {
    if (made) in.push_back(filled(name, kF32, {n.H}, gate));
  }
  if (momentum) {
    in.push_back(filled("m0", kF32, states, any));
    out.push_back({"m_final", kF32, states});
    d_out.push_back(filled("d_m_final", kF32, states, any));
  }
  std::vector<Tensor> d_in;
  for (const Tensor& t : in) d_in.push_back({"d_" + t.role, t.dtype, t.shape});
  if (packed) {
    Tensor bounds("cu_seqlens", kI64, {sequences + 1});
    std::memcpy(bounds.bytes.data(), n.cu_seqlens.data(), bounds.bytes.size());
    in.push_back(bounds);
  }

  assay_call call{};
  call.struct_size = sizeof call;
  call.operation = op.c_str();
  std::vector<assay_tensor> lists[4];
  std::vector<Tensor>* const groups[4] = {&in, &out, &d_out, &d_in};
  const assay_tensor** const to[4] = {&call.inputs, &call.outputs, &call.cotangents,
                                      &call.gradients};
  std::int32_t* const counts[4] = {&call.num_inputs, &call.num_outputs, &call.num_cotangents,
                                   &call.num_gradients};
  for (int g = 0; g < 4; ++g) {
    for (Tensor& t : *groups[g]) lists[g].push_back(t.descriptor());
    *to[g] = lists[g].data(), *counts[g] = static_cast<std::int32_t>(lists[g].size());
  }
  assay_option options[2]{};
  options[0].name = "recompute", options[0].type = ASSAY_OPTION_INT;
  options[0].integer = recompute;
  options[1].name = "qk_l2norm", options[1].type = ASSAY_OPTION_BOOL;
  options[1].integer = n.l2norm;
  call.options = options, call.num_options = 2;
  Results r;
  REQUIRE(plugin().workspace_bytes(&call, &r.workspace) == ASSAY_OK);
  std::vector<char> memory(r.workspace + 256, '\xfe');
  auto* aligned = memory.data();
  aligned += (256 - reinterpret_cast<std::uintptr_t>(aligned) % 256) % 256;
  call.workspace = aligned, call.workspace_bytes = r.workspace;
  REQUIRE(plugin().run(&call) == ASSAY_OK);
  for (const auto* group : {&out, &d_in}) {
    for (const Tensor& t : *group) r.bytes[t.role] = t.bytes;
  }
  return r;
}

void compare(const std::string& op, const Sizes& n, std::initializer_list<std::int64_t> windows) {
  const Results stored = run(op, n, 0);
  for (const std::int64_t window : windows) {
    CAPTURE(op, window);
    const Results again = run(op, n, window);
    CHECK(again.workspace < stored.workspace);
    for (const auto& [name, bytes] : stored.bytes) {
      CAPTURE(name);
      CHECK((again.bytes.at(name) == bytes));
    }
  }
}

}  // namespace

TEST_CASE("cuda_on_cpu/recompute: the same bits as with everything stored", "[cuda_on_cpu]") {
  compare("mdn", {2, 200, 1, 64, 64, {}}, {1, 3});
  compare("gdn", {1, 256, 2, 64, 64, {}}, {1, 2});
  compare("mdn_fused_gates", {2, 150, 1, 64, 64, {}}, {2});
}

TEST_CASE("cuda_on_cpu/recompute: the same bits for packed sequences, empty ones and short ones",
          "[cuda_on_cpu]") {
  compare("mdn", {1, 400, 1, 64, 64, {0, 0, 3, 131, 131, 400}, true}, {1, 2});
  compare("gdn", {1, 330, 1, 64, 128, {0, 256, 330}}, {1, 2});
  compare("mdn_fused_gates", {1, 330, 1, 64, 64, {0, 60, 61, 330}}, {2});
}

TEST_CASE("cuda_on_cpu/recompute: the same bits in fp32", "[cuda_on_cpu]") {
  compare("mdn", {1, 400, 1, 32, 16, {0, 0, 3, 131, 131, 400}, true, kF32}, {1, 2});
  compare("gdn", {2, 200, 1, 16, 48, {}, false, kF32}, {2});
}

TEST_CASE("cuda_on_cpu/recompute: not where it would take more memory", "[cuda_on_cpu]") {
  const Sizes short_ones{1, 4, 1, 64, 64, {0, 1, 2, 3, 4}};
  CHECK(run("gdn", short_ones, 4).workspace == run("gdn", short_ones, 0).workspace);
}
