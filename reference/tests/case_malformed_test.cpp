// Files that lie: every one of them ends in an InputError of one line that says what is wrong.
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "reference/case/safetensors.hpp"
#include "reference/tests/case_fixtures.hpp"

using namespace assay;
using namespace assay::fixtures;

namespace {

std::string with_length(std::uint64_t length, const std::string& rest) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + rest;
}

std::string file(const std::string& header, std::size_t data_bytes = 0) {
  return with_length(header.size(), header + std::string(data_bytes, '\1'));
}

std::string tensor(const std::string& name, const std::string& dtype, const std::string& shape,
                   const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}

std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets,
                std::size_t data_bytes) {
  return file("{" + tensor("k", dtype, shape, offsets) + "}", data_bytes);
}

/// "{" n times nested in "a" "}".
std::string nested(int n) {
  std::string open, close;
  for (int i = 0; i < n; ++i) {
    open += "{\"a\":";
    close += "}";
  }
  return open + "1" + close;
}

std::string many_numbers(int n) {
  std::string out = "[1";
  for (int i = 1; i < n; ++i) out += ",1";
  return out + "]";
}

struct Malformed {
  const char* what;
  std::string bytes;
  std::vector<std::string> says;
};

std::vector<Malformed> malformed_headers() {
  const std::string good = tensor("k", "F32", "[3]", "[0,12]");
  return {
      {"empty", "", {"empty file"}},
      {"seven bytes", std::string(7, '\0'), {"truncated", "7 bytes"}},
      {"no header", with_length(0, ""), {"header", "empty text"}},
      {"header cut off", with_length(50, "{}"), {"truncated", "length 50", "only 2 bytes"}},
      {"length above the limit", with_length(100'000'001, "{}"), {"100000001", "limit"}},
      {"length of 2^64 - 1", with_length(~0ull, "{}"), {"18446744073709551615", "limit"}},
      {"length of 2^64 - 8", with_length(~0ull - 7, "{}"), {"limit"}},
      {"text", "a text file that is no tensors at all", {"not a safetensors file?"}},
      {"array", file("[1,2]"), {"expected a JSON object", "[1,2]"}},
      {"number", file("7"), {"expected a JSON object"}},
      {"only blanks", file("    "), {"empty text"}},
      {"byte order mark", file("\xEF\xBB\xBF{}"), {"expected a JSON object"}},
      {"unclosed", file("{\"k\":"), {"malformed JSON", "line 1"}},
      {"two objects", file("{}{}"), {"malformed JSON"}},
      {"comment", file("{/*x*/}"), {"malformed JSON"}},
      {"control character in a string", file("{\"a\nb\":1}"), {"malformed JSON"}},
      {"NUL after the object", file(std::string("{}\0rubbish", 10)), {"NUL", "position 2"}},
      {"not UTF-8", file("{\"\xFFk\":1}"), {"not UTF-8"}},
      {"overlong UTF-8", file("{\"\xC0\xAF\":1}"), {"not UTF-8"}},
      {"lone surrogate", file("{\"\\ud800\":1}"), {"malformed JSON"}},
      {"number out of range", file("{\"k\":1e999}"), {"malformed JSON", "1e999"}},
      {"deep objects", file(nested(100'000)), {"nested deeper than 3 levels"}},
      {"deep arrays", file("{\"k\":" + std::string(100'000, '[')), {"nested deeper"}},
      {"long array", file("{\"k\":{\"shape\":" + many_numbers(65) + "}}"), {"more than 64"}},
      {"tensor twice", file("{" + good + "," + good + "}", 12), {"'k'", "given twice"}},
      {"dtype twice",
       file("{\"k\":{\"dtype\":\"F32\",\"dtype\":\"F16\",\"shape\":[],\"data_offsets\":[0,4]}}", 4),
       {"'dtype'", "given twice", "'k'"}},
      {"metadata twice",
       file("{\"__metadata__\":{},\"__metadata__\":{}}"),
       {"'__metadata__'", "given twice"}},
      {"metadata key twice",
       file("{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}"),
       {"'a'", "given twice", "'__metadata__'"}},
      {"metadata no object", file("{\"__metadata__\":\"x\"}"), {"metadata", "object of strings"}},
      {"metadata of numbers",
       file("{\"__metadata__\":{\"seed\":7}}"),
       {"metadata 'seed'", "number", "must be a string"}},
  };
}

std::vector<Malformed> malformed_entries() {
  return {
      {"entry no object", file("{\"k\":[]}"), {"tensor 'k'", "must be an object"}},
      {"no dtype",
       file("{\"k\":{\"shape\":[],\"data_offsets\":[0,0]}}"),
       {"'k'", "'dtype' is miss"}},
      {"no shape",
       file("{\"k\":{\"dtype\":\"F32\",\"data_offsets\":[0,0]}}"),
       {"'shape' is missing"}},
      {"no offsets",
       file("{\"k\":{\"dtype\":\"F32\",\"shape\":[]}}"),
       {"'data_offsets' is missing"}},
      {"extra key",
       file("{\"k\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4],\"stride\":1}}", 4),
       {"tensor 'k'", "unknown key 'stride'"}},
      {"unknown dtype", one("F8_E4M3", "[1]", "[0,1]", 1), {"'k'", "F8_E4M3", "F64 F32 F16 BF16"}},
      {"dtype a number",
       file("{\"k\":{\"dtype\":3,\"shape\":[],\"data_offsets\":[0,0]}}"),
       {"dtype 3"}},
      {"shape no array", one("F32", "4", "[0,4]", 4), {"'shape' must be an array"}},
      {"negative axis", one("F32", "[-3]", "[0,12]", 12), {"'k'", "axis 0 is -3"}},
      {"fractional axis", one("F32", "[3,1.0]", "[0,12]", 12), {"axis 1 is 1.0", "integer"}},
      {"axis a string", one("F32", "[\"3\"]", "[0,12]", 12), {"axis 0", "integer"}},
      {"axis of 2^63", one("F32", "[9223372036854775808]", "[0,12]", 12), {"axis 0", "integer"}},
      {"axis of 2^64", one("F32", "[18446744073709551616]", "[0,12]", 12), {"axis 0", "integer"}},
      {"33 axes", one("F32", many_numbers(33), "[0,4]", 4), {"33 axes"}},
      {"shape overflows", one("F32", "[4294967296,4294967296]", "[0,0]", 0), {"overflows 63 bits"}},
      {"shape overflows to 12 bytes",
       one("F32", "[4611686018427387907]", "[0,12]", 12),
       {"overflows 63 bits"}},
      {"empty but overflowing",
       one("F32", "[4294967296,4294967296,0]", "[0,0]", 0),
       {"overflows 63 bits"}},
  };
}

std::vector<Malformed> malformed_offsets() {
  const std::string q = tensor("q", "F32", "[3]", "[0,12]");
  return {
      {"one offset", one("F32", "[3]", "[12]", 12), {"array of two integers"}},
      {"three offsets", one("F32", "[3]", "[0,12,12]", 12), {"array of two integers"}},
      {"negative offset", one("F32", "[3]", "[-12,0]", 12), {"begin is -12"}},
      {"fractional offset", one("F32", "[3]", "[0,12.0]", 12), {"end is 12.0"}},
      {"begin after end", one("F32", "[3]", "[12,0]", 12), {"bytes 12..0", "begin is after end"}},
      {"beyond the data",
       one("F32", "[3]", "[0,12]", 11),
       {"0..12", "beyond the data", "11 bytes"}},
      {"far beyond", one("F32", "[3]", "[0,9223372036854775807]", 12), {"beyond the data"}},
      {"too few bytes",
       one("F32", "[3]", "[0,8]", 8),
       {"are 8 bytes", "F32 of shape [3] takes 12"}},
      {"too many bytes", one("BF16", "[3]", "[0,12]", 12), {"BF16", "takes 6"}},
      {"overlap",
       file("{" + q + "," + tensor("k", "F32", "[2]", "[8,16]") + "}", 16),
       {"tensor 'k': bytes 8..16 overlap tensor 'q'", "0..12"}},
      {"same bytes",
       file("{" + q + "," + tensor("k", "F32", "[3]", "[0,12]") + "}", 12),
       {"overlap tensor 'k'"}},
      {"empty tensor inside another",
       file("{" + q + "," + tensor("k", "F32", "[0]", "[4,4]") + "}", 12),
       {"'k'", "overlap"}},
      {"hole",
       file("{" + q + "," + tensor("k", "F32", "[1]", "[16,20]") + "}", 20),
       {"tensor 'k'", "hole: bytes 12..16"}},
      {"hole at the start", one("F32", "[3]", "[4,16]", 16), {"hole: bytes 0..4"}},
      {"trailing bytes", one("F32", "[3]", "[0,12]", 13), {"trailing bytes", "byte 12", "has 13"}},
      {"data without tensors", file("{}", 1), {"trailing bytes"}},
      {"line break in a name",
       file("{" + tensor("a\\nb\\u001b[31m", "F32", "[3]", "[0,8]") + "}", 8),
       {"'a\\nb\\x1b[31m'"}},
  };
}

void check_table(const std::vector<Malformed>& table) {
  for (const Malformed& m : table) {
    INFO(m.what);
    const std::string message = refusal([&] { parse_safetensors(m.bytes, "m.safetensors"); });
    CAPTURE(message);
    CHECK(one_clear_line(message));
    CHECK(message.rfind("m.safetensors: ", 0) == 0);
    for (const std::string& word : m.says) {
      CAPTURE(word);
      CHECK(message.find(word) != std::string::npos);
    }
  }
}

std::string metadata_file(const std::string& metadata) {
  return file("{\"__metadata__\":{" + metadata + "}}");
}

}  // namespace

TEST_CASE("case/safetensors: malformed headers are refused in one line", "[case]") {
  check_table(malformed_headers());
}

TEST_CASE("case/safetensors: malformed tensor entries are refused in one line", "[case]") {
  check_table(malformed_entries());
  check_table(malformed_offsets());
}

TEST_CASE("case/safetensors: malformed case metadata is refused in one line", "[case]") {
  const std::string version = "\"assay.version\":\"1\",";
  const std::string op = version + "\"assay.op\":\"gated\",\"assay.options\":";
  const std::vector<Malformed> table = {
      {"no metadata", file("{}"), {"'assay.version' is missing"}},
      {"no version", metadata_file("\"assay.op\":\"gated\""), {"'assay.version' is missing"}},
      {"other version",
       metadata_file("\"assay.version\":\"2\",\"assay.op\":\"gated\""),
       {"'assay.version' is '2'"}},
      {"no op", metadata_file("\"assay.version\":\"1\""), {"'assay.op' is missing"}},
      {"empty op", metadata_file(version + "\"assay.op\":\"\""), {"'assay.op' is missing"}},
      {"options empty", metadata_file(op + "\"\""), {"'assay.options'", "empty text"}},
      {"options a list", metadata_file(op + "\"[1]\""), {"expected a JSON object"}},
      {"options unclosed", metadata_file(op + "\"{\\\"a\\\":1\""), {"malformed JSON"}},
      {"option null", metadata_file(op + "\"{\\\"a\\\":null}\""), {"option 'a'", "null"}},
      {"option a list", metadata_file(op + "\"{\\\"a\\\":[1]}\""), {"option 'a'", "array"}},
      {"option twice", metadata_file(op + "\"{\\\"a\\\":1,\\\"a\\\":2}\""), {"'a' is given twice"}},
      {"option huge", metadata_file(op + "\"{\\\"a\\\":9223372036854775808}\""), {"64-bit"}},
  };
  for (const Malformed& m : table) {
    INFO(m.what);
    const std::string message =
        refusal([&] { case_from_file(parse_safetensors(m.bytes, "m"), "m.safetensors"); });
    CAPTURE(message);
    CHECK(one_clear_line(message));
    CHECK(message.rfind("m.safetensors: metadata ", 0) == 0);
    for (const std::string& word : m.says) CHECK(message.find(word) != std::string::npos);
  }
}

TEST_CASE("case/safetensors: what is no readable file is refused by name", "[case]") {
  const Folder folder;
  const auto message = [&](const std::string& path) { return refusal([&] { read_case(path); }); };
  CHECK(message(folder / "absent").find("absent: cannot be opened: No such") != std::string::npos);
  CHECK(message(folder / "").find("is a directory") != std::string::npos);
  CHECK(message("/dev/null").find("not a regular file") != std::string::npos);
  CHECK(one_clear_line(message(folder / "line\nbreak")));
  CHECK(message(std::string("a\0b", 3)).find("NUL") != std::string::npos);

  const std::string fifo = folder / "fifo";
  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  CHECK(message(fifo).find("not a regular file") != std::string::npos);

  const std::string secret = folder / "secret";
  std::ofstream(secret) << "x";
  std::filesystem::permissions(secret, std::filesystem::perms::none);
  if (geteuid() == 0) {
    WARN("skipped for root, who may read every file: an unreadable file is refused");
  } else {
    CHECK(message(secret).find("Permission denied") != std::string::npos);
  }
}

TEST_CASE("case/safetensors: more than the memory is refused before it is taken", "[case]") {
  // 2 bytes an element in the file, 8 in memory.
  const std::string bytes = one("BF16", "[1000]", "[0,2000]", 2000);
  CHECK(refusal([&] { parse_safetensors(bytes, "m", bytes.size() + 7999); }).find("memory") !=
        std::string::npos);
  CHECK(parse_safetensors(bytes, "m", bytes.size() + 8000).tensors.at("k").values.size() == 1000);

  const Folder folder;
  const std::string path = folder / "large";
  std::ofstream(path) << bytes;
  CHECK(refusal([&] { read_safetensors(path, 100); }).find("limit of 100") != std::string::npos);
  // A sparse file of 2^43 bytes: takes no room on the disk, more than there is in memory.
  std::error_code failed;
  std::filesystem::resize_file(path, std::uintmax_t{1} << 43, failed);
  if (failed) {
    WARN("skipped: this file system has no files of 2^43 bytes: " << failed.message());
  } else {
    CHECK(refusal([&] { read_case(path); }).find("limit") != std::string::npos);
  }
}

TEST_CASE("case/safetensors: random damage is read or refused, never worse", "[case]") {
  Case c = gated_case();
  c.options = {{"scale", 0.125}, {"chunk", std::int64_t{16}}, {"update", std::string("gdn")}};
  c.tensors["skip"] = floats({4}, 1.5, DType::F16);
  const std::string valid = safetensors_bytes(file_from_case(c));
  std::uint64_t header = 0;
  std::memcpy(&header, valid.data(), 8);
  constexpr unsigned kSeed = 20240607;
  INFO("std::mt19937 seeded with " << kSeed);
  std::mt19937 random(kSeed);
  int read = 0, refused = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string bytes = valid;
    const int flips = 1 + static_cast<int>(random() % 4);
    for (int i = 0; i < flips; ++i) {
      // Half of them anywhere, half in the header, where there is something to break.
      const std::size_t range = random() % 2 == 0 ? bytes.size() : 8 + header;
      bytes[random() % range] = static_cast<char>(random());
    }
    if (random() % 8 == 0) bytes.resize(random() % bytes.size());
    CAPTURE(round);
    const std::string message = refusal([&] {
      Case damaged = case_from_file(parse_safetensors(bytes, "m"), "m");
      damaged.op = "gated";
      validate(std::move(damaged), gated());
    });
    if (message.empty()) {
      ++read;
    } else {
      ++refused;
      REQUIRE(one_clear_line(message));
    }
  }
  CHECK(refused > 1000);
  CHECK(read > 100);  // damage to the numbers alone
}
