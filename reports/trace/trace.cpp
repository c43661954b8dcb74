#include "reports/trace/trace.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>

#include "reference/case/json.hpp"
#include "reference/case/options.hpp"
#include "reference/case/safetensors.hpp"
#include "reference/case/text.hpp"
#include "reference/case/validate.hpp"
#include "reference/oracle/registry.hpp"
#include "reports/trace/source.hpp"

namespace assay::reports {
namespace {

constexpr std::int64_t kPiece = 1 << 16;  // elements that are read at once

std::string given(const Case& data, const std::string& name, const std::string& log_name) {
  if (data.tensors.count(name) != 0) return name;
  return !log_name.empty() && data.tensors.count(log_name) != 0 ? log_name : "";
}

std::vector<std::int64_t> strides_of(const Shape& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t a = shape.size(); a-- > 1;) strides[a - 1] = strides[a] * shape[a];
  return strides;
}

}  // namespace

/// Elements of a tensor, wherever they are; refuses what is no number.
class Trace::Source {
 public:
  Source(const Case& data, std::unique_ptr<StreamedFile> file)
      : data_(data), file_(std::move(file)) {}

  void read(const std::string& name, std::int64_t first, std::int64_t count, double* out) const {
    const CaseTensor& tensor = data_.tensors.at(name);
    if (!file_) {
      std::copy_n(tensor.values.data() + first, count, out);
      return;
    }
    const CaseTensor piece = file_->read(name, first, count);
    const bool log = name.rfind("log_", 0) == 0;
    for (std::int64_t i = 0; i < count; ++i) {
      out[i] = piece.values[i];
      if (std::isfinite(out[i]) || (log && out[i] == -kInf)) continue;
      refuse_tensor(data_, name,
                    "index " + index_text(tensor.shape, first + i) + ", value " +
                        number_text(out[i]) + ": must be finite" + (log ? " or -inf" : ""));
    }
  }
  std::vector<std::int64_t> integers(const std::string& name) const {
    const CaseTensor& tensor = data_.tensors.at(name);
    return file_ ? file_->read(name, 0, element_count(tensor.shape)).integers : tensor.integers;
  }
  bool streamed() const { return file_ != nullptr; }
  const StreamedFile& file() const { return *file_; }

 private:
  const Case& data_;
  std::unique_ptr<StreamedFile> file_;
};

Trace::~Trace() = default;

Trace::Trace(const std::string& path, std::uint64_t small_file) : path_(path) {
  struct stat info {};
  const bool large = ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
                     static_cast<std::uint64_t>(info.st_size) > small_file;
  if (large) {
    open_large();
  } else {
    open_small();
  }
  if (!sizes_.has('T')) refuse(data_, data_.op + " has no time axis, so no products of steps");
  if (sizes_['T'] == 0) refuse(data_, "T = 0: a trace without steps");
  unit_op_ = data_.op;
  if (schema_.find_input("router_logits") != nullptr) {
    const auto update = data_.options.find("update");
    unit_op_ = update == data_.options.end() ? "gdn" : std::get<std::string>(update->second);
  }
  const Operation& operation = find_operation(unit_op_);
  linear_ = operation.is_fast_weight();
  unit_schema_ = operation.schema(unit_op_ == data_.op ? &data_ : nullptr);
  make_units();
  if (units_.empty()) refuse(data_, "no sequence has a step");
}

void Trace::open_small() {
  data_ = read_case(path_);
  schema_ = find_operation(data_.op).schema(&data_);
  ValidCase valid = validate(std::move(data_), schema_);
  for (const DomainNote& note : valid.notes) notes_.push_back(domain_note_text(note));
  for (const std::string& note : find_operation(schema_.op).notes(valid)) notes_.push_back(note);
  sizes_ = valid.sizes;
  cu_seqlens_ = valid.cu_seqlens;
  data_ = std::move(valid.data);
  source_ = std::make_unique<Source>(data_, nullptr);
}

void Trace::open_large() {
  auto file = std::make_unique<StreamedFile>(path_);
  SafetensorsFile head;  // the metadata have one reader only
  head.metadata = file->metadata();
  data_ = case_from_file(std::move(head), path_);
  data_.tensors = file->tensors();
  schema_ = find_operation(data_.op).schema(&data_);
  check_options(data_, schema_);
  source_ = std::make_unique<Source>(data_, std::move(file));
  if (data_.tensors.count(kCuSeqlens) != 0) cu_seqlens_ = source_->integers(kCuSeqlens);
  sizes_ = solve_axes(data_, schema_, cu_seqlens_);
  for (const InputSpec& input : schema_.inputs) {
    if (input.optional || !given(data_, input.name, input.log_name).empty()) continue;
    refuse(data_, "tensor " + quote_name(input.name) + " is missing, " + data_.op + " requires it");
  }
  note_gates();
}

void Trace::note_gates() {
  std::vector<double> values(kPiece);
  for (const InputSpec& input : schema_.inputs) {
    const std::string name = given(data_, input.name, input.log_name);
    if (name.empty() || input.integer) continue;
    DomainNote note{name, 0, "", 0, domain_of(input, name)};
    if (!std::isfinite(note.domain.lo) && !std::isfinite(note.domain.hi)) continue;
    const Shape& shape = data_.tensors.at(name).shape;
    const std::int64_t count = element_count(shape);
    for (std::int64_t first = 0; first < count; first += kPiece) {
      const std::int64_t n = std::min(kPiece, count - first);
      source_->read(name, first, n, values.data());
      for (std::int64_t i = 0; i < n; ++i) {
        if (values[i] >= note.domain.lo && values[i] <= note.domain.hi) continue;
        if (note.count++ > 0) continue;
        note.first_index = index_text(shape, first + i);
        note.first_value = values[i];
      }
    }
    if (note.count > 0) notes_.push_back(domain_note_text(note));
  }
}

void Trace::make_units() {
  const bool heads = schema_.heads_are_independent && sizes_.has(schema_.head_axis);
  const std::int64_t H = heads ? sizes_[schema_.head_axis] : 1;
  const bool packed = !cu_seqlens_.empty();
  const std::int64_t B = sizes_.has('B') ? sizes_['B'] : 1;
  const std::int64_t sequences = packed ? static_cast<std::int64_t>(cu_seqlens_.size()) - 1 : B;
  for (std::int64_t s = 0; s < sequences; ++s) {
    for (std::int64_t h = 0; h < H; ++h) {
      TraceUnit unit;
      unit.sequence = s;
      unit.batch = packed ? 0 : s;
      unit.head = h;
      unit.start = packed ? cu_seqlens_[s] : 0;
      unit.steps = packed ? cu_seqlens_[s + 1] - unit.start : sizes_['T'];
      unit.name = (sequences > 1 ? "sequence " + std::to_string(s) + ", " : "") + "head " +
                  std::to_string(h);
      if (unit.steps > 0) units_.push_back(unit);
    }
  }
  if (unit_op_ != data_.op) make_memory_units();
}

/// Every memory with the tokens that the router sends to it; ties go to the lower index.
/// [MoM v4, Eqs. 3-4]
void Trace::make_memory_units() {
  const std::int64_t M = sizes_['M'];
  const auto option = data_.options.find("top_k");
  const std::int64_t top_k =
      std::min(M, option == data_.options.end() ? 2 : std::get<std::int64_t>(option->second));
  const bool shared = sizes_.has('R') ? sizes_['R'] > M : false;
  std::vector<TraceUnit> units;
  for (const TraceUnit& unit : units_) {
    std::vector<std::vector<std::int64_t>> tokens(M);
    std::vector<double> logits(M);
    std::vector<std::int64_t> order(M);
    for (std::int64_t t = unit.start; t < unit.start + unit.steps; ++t) {
      source_->read("router_logits", (unit.batch * sizes_['T'] + t) * M, M, logits.data());
      for (std::int64_t m = 0; m < M; ++m) order[m] = m;
      std::stable_sort(order.begin(), order.end(),
                       [&](std::int64_t a, std::int64_t b) { return logits[a] > logits[b]; });
      for (std::int64_t i = 0; i < top_k; ++i) tokens[order[i]].push_back(t);
    }
    for (std::int64_t m = 0; m < M + (shared ? 1 : 0); ++m) {
      TraceUnit one = unit;
      one.memory = m;
      one.name += m < M ? ", memory " + std::to_string(m) : ", shared memory";
      if (m < M) {
        one.tokens = tokens[m];
        one.steps = static_cast<std::int64_t>(one.tokens.size());
      }
      if (one.steps > 0) {
        units.push_back(one);
      } else {
        notes_.push_back(one.name + ": no token is sent to it, left out");
      }
    }
  }
  units_ = std::move(units);
}

Trace::Stored Trace::stored(const InputSpec& input, const TraceUnit& unit) const {
  const bool routed = unit.memory >= 0 && input.role == Role::token;
  const bool shared = routed && unit.memory == sizes_['M'];
  const std::string suffix = !routed ? "" : shared ? "_shared" : "_mem";
  const std::string log = input.log_name.empty() ? "" : input.log_name + suffix;
  Stored from;
  from.tensor = given(data_, input.name + suffix, log);
  from.given =
      from.tensor.substr(0, from.tensor.size() - (from.tensor.empty() ? 0 : suffix.size()));
  from.axes = input.axes;
  if (routed && !shared) from.axes.insert(from.axes.find('T') + 1, "M");
  return from;
}

/// The unit's part of a tensor, in the shape of a case with B = 1 and one head.
CaseTensor Trace::cut(const Stored& from, const InputSpec& input, const TraceUnit& unit,
                      std::int64_t s0, std::int64_t n) const {
  const Shape& shape = data_.tensors.at(from.tensor).shape;
  const std::vector<std::int64_t> stride = strides_of(shape);
  const bool heads = schema_.heads_are_independent;
  std::int64_t base = 0, time_stride = -1;
  std::vector<std::int64_t> local = {0};  // what is kept of one token
  CaseTensor out;
  for (std::size_t a = 0; a < from.axes.size(); ++a) {
    const char letter = from.axes[a];
    const bool head = heads && letter == schema_.head_axis;
    if (letter == 'B') {
      base += (input.role == Role::state ? unit.sequence : unit.batch) * stride[a];
    } else if (letter == 'T') {
      time_stride = stride[a];
    } else if (letter == 'M' && unit.memory >= 0) {
      base += unit.memory * stride[a];
      continue;
    } else if (head) {
      base += unit.head / (sizes_[letter] / shape[a]) * stride[a];
    } else {
      std::vector<std::int64_t> next;
      for (const std::int64_t offset : local) {
        for (std::int64_t i = 0; i < shape[a]; ++i) next.push_back(offset + i * stride[a]);
      }
      local = std::move(next);
    }
    out.shape.push_back(letter == 'T' ? n : letter == 'B' || head ? 1 : shape[a]);
  }
  const std::int64_t steps = time_stride < 0 ? 1 : n;
  const std::int64_t width = static_cast<std::int64_t>(local.size());
  out.values.resize(width * steps);
  const auto first = [&](std::int64_t s) {
    return base + (time_stride < 0 ? 0 : unit.token(s0 + s) * time_stride);
  };
  // Few numbers of every token: as many tokens with one read as are not too far apart.
  const std::int64_t reach = local.back() + 1;
  std::vector<double> piece;
  for (std::int64_t s = 0; s < steps;) {
    std::int64_t end = s + 1;
    while (end < steps && width < 8 && first(end) - first(s) + reach <= kPiece) ++end;
    piece.resize(first(end - 1) - first(s) + reach);
    source_->read(from.tensor, first(s), static_cast<std::int64_t>(piece.size()), piece.data());
    for (const std::int64_t begin = first(s); s < end; ++s) {
      for (std::int64_t i = 0; i < width; ++i) {
        out.values[s * width + i] = piece[first(s) - begin + local[i]];
      }
    }
  }
  return out;
}

ValidCase Trace::slice(const TraceUnit& unit, std::int64_t s0, std::int64_t n,
                       std::int64_t columns) const {
  Case piece;
  piece.op = unit_op_;
  piece.source = path_;
  for (const auto& [name, value] : data_.options) {
    if (name == "state_grad_clip") continue;
    if (unit_schema_.find_option(name) != nullptr) piece.options[name] = value;
  }
  for (const InputSpec& input : unit_schema_.inputs) {
    // Of a linear step neither the query nor what is written into the state matters.
    const bool values = input.axes.find('V') != std::string::npos;
    if (linear_ && (input.name == "q" || values)) {
      if (input.role == Role::state || input.optional) continue;
      CaseTensor zeros;
      for (const char letter : input.axes) {
        zeros.shape.push_back(letter == 'T'                    ? n
                              : letter == 'V'                  ? columns
                              : letter == 'B' || letter == 'H' ? 1
                                                               : sizes_[letter]);
      }
      zeros.values.assign(element_count(zeros.shape), 0.0);
      piece.tensors[input.name] = std::move(zeros);
      continue;
    }
    if (linear_ && (input.name == "q_correction" || input.role == Role::state)) continue;
    const Stored from = stored(input, unit);
    if (!from.tensor.empty()) piece.tensors[from.given] = cut(from, input, unit, s0, n);
  }
  for (const OutputSpec& output : unit_schema_.outputs) {  // cotangents, where states have them
    const std::string name = "d_" + output.name;
    const bool wanted = !output.final_state || s0 + n == unit.steps;
    if (linear_ || !wanted || data_.tensors.count(name) == 0) continue;
    InputSpec like{name, output.axes, output.final_state ? Role::state : Role::token, "", {}};
    piece.tensors[name] = cut({name, name, output.axes}, like, unit, s0, n);
  }
  return validate(std::move(piece), unit_schema_);
}

}  // namespace assay::reports
