// What is written is what is read, bit for bit.
#include <rapidcheck.h>

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "reference/case/options.hpp"
#include "reference/case/safetensors.hpp"
#include "reference/scalars/rounded.hpp"
#include "reference/tests/case_fixtures.hpp"

using namespace assay;
using namespace assay::fixtures;

namespace {

bool same_bits(const CaseTensor& a, const CaseTensor& b) {
  const auto bits = [](double x) { return std::bit_cast<std::uint64_t>(x); };
  if (a.dtype != b.dtype || a.shape != b.shape || a.integers != b.integers) return false;
  return std::equal(a.values.begin(), a.values.end(), b.values.begin(), b.values.end(),
                    [&](double x, double y) { return bits(x) == bits(y); });
}

/// Any pattern of the dtype but NaN: subnormals, infinities, -0.0 and the largest numbers included.
double number_of(DType dtype, std::uint64_t pattern) {
  double value = 0;
  if (dtype == DType::F64) value = std::bit_cast<double>(pattern);
  if (dtype == DType::F32) value = std::bit_cast<float>(static_cast<std::uint32_t>(pattern));
  if (dtype == DType::F16) value = fp16_bits_to_float(static_cast<std::uint16_t>(pattern));
  if (dtype == DType::BF16) value = bf16_bits_to_float(static_cast<std::uint16_t>(pattern));
  return value == value ? value : -0.0;
}

CaseTensor random_tensor() {
  CaseTensor t;
  t.dtype =
      *rc::gen::element(DType::F64, DType::F32, DType::F16, DType::BF16, DType::I64, DType::I32);
  const int rank = *rc::gen::inRange(0, 5);
  for (int i = 0; i < rank; ++i) t.shape.push_back(*rc::gen::inRange(0, 5));
  const std::int64_t count = element_count(t.shape);
  // Subnormals of every format, both zeros, the ends of the ranges.
  const auto pattern = rc::gen::oneOf(
      rc::gen::arbitrary<std::uint64_t>(), rc::gen::inRange<std::uint64_t>(0, 256),
      rc::gen::element<std::uint64_t>(0x8000, 0x80000000, 0x8000000000000000, 0x8001, 0x7BFF,
                                      0x7F7F, 0x7F7FFFFF, 0x000FFFFFFFFFFFFF));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t bits = *pattern;
    if (t.dtype == DType::I64) {
      t.integers.push_back(static_cast<std::int64_t>(bits));
    } else if (t.dtype == DType::I32) {
      t.integers.push_back(static_cast<std::int32_t>(bits));
    } else {
      t.values.push_back(number_of(t.dtype, bits));
    }
  }
  return t;
}

Options random_options() {
  Options options;
  if (*rc::gen::arbitrary<bool>()) options["flag"] = *rc::gen::arbitrary<bool>();
  if (*rc::gen::arbitrary<bool>()) options["count"] = *rc::gen::arbitrary<std::int64_t>();
  if (*rc::gen::arbitrary<bool>()) options["word"] = *rc::gen::element<std::string>("", "é\"\\\n");
  const double real = std::bit_cast<double>(*rc::gen::arbitrary<std::uint64_t>());
  if (std::isfinite(real)) options["real"] = real;
  options["one"] = 1.0;
  return options;
}

}  // namespace

TEST_CASE("case/safetensors: writing and reading returns the same bits", "[case]") {
  const Folder folder;
  const bool holds = rc::check([&] {
    Case c;
    c.op = "any";
    c.seed = *rc::gen::element<std::string>("", "7");
    c.options = random_options();
    c.metadata["note"] = "kept";
    const int count = *rc::gen::inRange(0, 6);
    for (int i = 0; i < count; ++i) c.tensors["t\n'\"é" + std::to_string(i)] = random_tensor();
    const std::string path = folder / "c.safetensors";
    write_case(path, c);
    const Case back = read_case(path);
    RC_ASSERT(back.op == c.op);
    RC_ASSERT(back.seed == c.seed);
    RC_ASSERT(back.options == c.options);
    RC_ASSERT(back.metadata == c.metadata);
    RC_ASSERT(back.source == path);
    RC_ASSERT(back.tensors.size() == c.tensors.size());
    for (const auto& [name, tensor] : c.tensors) {
      RC_ASSERT(same_bits(tensor, back.tensors.at(name)));
    }
  });
  CHECK(holds);
}

TEST_CASE("case/safetensors: every 16-bit pattern survives", "[case]") {
  for (const char* dtype : {"F16", "BF16"}) {
    const std::string header = std::string("{\"x\":{\"dtype\":\"") + dtype +
                               "\",\"shape\":[65536],\"data_offsets\":[0,131072]}}";
    std::string data(131072, '\0');
    for (std::uint32_t i = 0; i < 65536; ++i) std::memcpy(data.data() + 2 * i, &i, 2);
    const std::uint64_t length = header.size();
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, 8);
    bytes += header + data;
    const std::string again = safetensors_bytes(parse_safetensors(bytes, "x"));
    REQUIRE(again.size() > data.size());
    // NaN payloads may change on the way through a double where a signalling NaN becomes quiet.
    int changed = 0;
    for (std::uint32_t i = 0; i < 65536; ++i) {
      std::uint16_t pattern = 0;
      std::memcpy(&pattern, again.data() + again.size() - data.size() + 2 * i, 2);
      const std::uint32_t infinity = std::string(dtype) == "F16" ? 0x7C00 : 0x7F80;
      if (pattern != i && (i & 0x7FFF) <= infinity) ++changed;
    }
    CHECK(changed == 0);
  }
}

TEST_CASE("case/safetensors: known bytes of every dtype are read as the formats define", "[case]") {
  // 1.5, -2, the smallest subnormal; IEEE 754 and bfloat16 by hand.
  const std::string header = R"({"a":{"dtype":"F16","shape":[3],"data_offsets":[0,6]},)"
                             R"("b":{"dtype":"BF16","shape":[3],"data_offsets":[6,12]},)"
                             R"("c":{"dtype":"F32","shape":[3],"data_offsets":[12,24]},)"
                             R"("d":{"dtype":"I32","shape":[1],"data_offsets":[24,28]},)"
                             R"("e":{"dtype":"I64","shape":[],"data_offsets":[28,36]}})";
  const std::uint8_t data[] = {0x00, 0x3E, 0x00, 0xC0, 0x01, 0x00,                       // F16
                               0xC0, 0x3F, 0x00, 0xC0, 0x01, 0x00,                       // BF16
                               0,    0,    0xC0, 0x3F, 0,    0,    0, 0xC0, 1, 0, 0, 0,  // F32
                               0xFE, 0xFF, 0xFF, 0xFF,                                   // I32
                               0,    0,    0,    0,    0,    0,    0, 0x80};             // I64
  const std::uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  bytes += header + std::string(reinterpret_cast<const char*>(data), sizeof(data));
  const auto tensors = parse_safetensors(bytes, "x").tensors;
  CHECK(tensors.at("a").values == std::vector<double>{1.5, -2, 0x1p-24});
  CHECK(tensors.at("b").values == std::vector<double>{1.5, -2, 0x1p-133});
  CHECK(tensors.at("c").values == std::vector<double>{1.5, -2, 0x1p-149});
  CHECK(tensors.at("d").integers == std::vector<std::int64_t>{-2});
  CHECK(tensors.at("e").integers == std::vector<std::int64_t>{INT64_MIN});
}

TEST_CASE("case/safetensors: a file replaces the old one whole or not at all", "[case]") {
  const Folder folder;
  const std::string path = folder / "c.safetensors";
  const Case c = gated_case();
  write_case(path, c);
  Case broken = c;
  broken.tensors["q"].values[3] = 0.1;  // no float32
  const std::string message = refusal([&] { write_case(path, broken); });
  CAPTURE(message);
  CHECK(message.find("tensor 'q': index [0,0,0,3], value 0.1: not a value of F32") !=
        std::string::npos);
  CHECK(read_case(path).tensors.at("q").values == c.tensors.at("q").values);
  CHECK(refusal([&] { write_case(folder / "no/such/folder", c); }).find("cannot be written") !=
        std::string::npos);
  CHECK(refusal([&] { write_case(folder / "", c); }).find("directory") != std::string::npos);
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder / "")) {
    ++files;
  }
  CHECK(files == 1);  // no temporary file is left
}

TEST_CASE("case/safetensors: data is aligned for readers that map the file", "[case]") {
  SafetensorsFile file;
  file.tensors["a"] = floats({3}, 1, DType::F16);
  file.tensors["b"] = floats({2}, 1, DType::F64);
  const std::string bytes = safetensors_bytes(file);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  CHECK(length % 8 == 0);
  CHECK(bytes.find("\"data_offsets\":[0,16]") != std::string::npos);  // b first
  CHECK(bytes == safetensors_bytes(parse_safetensors(bytes, "x")));
}

TEST_CASE("case/safetensors: the real traces are read as their README says", "[case]") {
  const std::string folder = ASSAY_SOURCE_DIR "/checks/samples/";
  const Case mdn = read_case(folder + "mdn_mqar.safetensors");
  CHECK(mdn.op == "mdn");
  CHECK(std::get<double>(mdn.options.at("scale")) == 0.125);
  CHECK(mdn.tensors.at("q").shape == Shape{1, 256, 2, 64});
  const std::vector<double>& log_mu = mdn.tensors.at("log_mu").values;
  CHECK(std::count_if(log_mu.begin(), log_mu.end(), [](double x) { return x > 0; }) == 256);
  CHECK(read_case(folder + "m2rnn_s3.safetensors").tensors.at("w").shape == Shape{4, 16, 16});
  const Case mom = read_case(folder + "mom_mqar.safetensors");
  CHECK(std::get<std::int64_t>(mom.options.at("top_k")) == 2);
  CHECK(std::get<std::string>(mom.options.at("update")) == "gdn");
  CHECK(mom.metadata.count("note") == 1);
}
