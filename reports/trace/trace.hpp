// A case file of any length, seen one sequence of one head at a time and a few hundred steps at
// once: what the reports walk along. Small files are read and checked like every case; of large
// ones only the steps at hand are in memory.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "reference/case/schema.hpp"

namespace assay::reports {

/// One sequence of one head, of one memory where there are several.
struct TraceUnit {
  std::int64_t sequence = 0, batch = 0, head = 0;
  std::int64_t memory = -1;  // mom: which one; M: the shared memory
  std::int64_t start = 0, steps = 0;
  /// The steps that this memory sees (mom); empty: all of [start, start + steps).
  std::vector<std::int64_t> tokens = {};
  std::string name;  // "sequence 0, head 1"

  /// Index on the axis T of the unit's step s.
  std::int64_t token(std::int64_t s) const { return tokens.empty() ? start + s : tokens[s]; }
};

class Trace {
 public:
  /// Files up to this many bytes are read whole.
  static constexpr std::uint64_t kSmallFile = std::uint64_t{64} << 20;

  /// Reads header, shapes, gates. Throws InputError, one line, for whatever is wrong, a trace
  /// without steps included.
  explicit Trace(const std::string& path, std::uint64_t small_file = kSmallFile);
  ~Trace();

  const std::string& path() const { return path_; }
  /// Of the file, and of what runs in a unit: for mom the update of its memories.
  const std::string& op() const { return data_.op; }
  const std::string& unit_op() const { return unit_op_; }
  const Schema& unit_schema() const { return unit_schema_; }
  const Options& options() const { return data_.options; }
  const Sizes& sizes() const { return sizes_; }
  const std::map<std::string, std::string>& metadata() const { return data_.metadata; }
  const std::vector<TraceUnit>& units() const { return units_; }
  /// Gates outside their domain, and what else a reader of a report should know.
  const std::vector<std::string>& notes() const { return notes_; }
  /// Is the state's step linear and the same for every column (the fast-weight family)?
  bool is_linear() const { return linear_; }

  /// Steps [s0, s0 + n) of a unit as a case of unit_op with B = 1 and one head. For linear
  /// operations the value axis has `columns` columns and q and all values are zero: then a step of
  /// the state is the transition and nothing else. A clamp of gradients is left out: reports are
  /// about the recurrence. Thread-safe.
  ValidCase slice(const TraceUnit& unit, std::int64_t s0, std::int64_t n,
                  std::int64_t columns) const;

 private:
  class Source;
  struct Stored {
    std::string tensor;  // name in the file, empty: absent
    std::string given;   // name in the unit's case
    std::string axes;    // of the tensor in the file
  };
  void open_small();
  void open_large();
  void make_units();
  void make_memory_units();
  void note_gates();
  Stored stored(const InputSpec& input, const TraceUnit& unit) const;
  CaseTensor cut(const Stored& from, const InputSpec& input, const TraceUnit& unit, std::int64_t s0,
                 std::int64_t n) const;

  std::string path_;
  std::unique_ptr<Source> source_;
  Case data_;  // shapes; values of small files
  Schema schema_, unit_schema_;
  std::string unit_op_;
  Sizes sizes_;
  std::vector<std::int64_t> cu_seqlens_;
  std::vector<TraceUnit> units_;
  std::vector<std::string> notes_;
  bool linear_ = false;
};

}  // namespace assay::reports
