#include "checks/candidate/hosted.hpp"

#include "reference/case/text.hpp"

namespace assay {
namespace {

using nlohmann::json;

constexpr std::size_t kDetail = 400;

PrecisionModel model_from_json(const json& declared) {
  PrecisionModel model;

  const auto format = [&](const char* key, NumberFormat& member) {
    if (declared.contains(key)) member = parse_format(declared[key].get<std::string>());
  };
  format("input", model.input);
  format("operand", model.operand);
  format("accumulator", model.accumulator);
  format("state", model.state);
  format("gate", model.gate);
  format("output", model.output);
  model.final_state = model.state;
  model.name = format_name(model.input) + " as the kernels declare it";
  if (declared.contains("form")) {
    model.form = parse_form(declared["form"].get<std::string>());
    model.form_declared = true;
  }
  if (declared.value("chunk", 0) > 0) model.chunk = declared["chunk"].get<int>();
  model.exp_error = declared.value("exp_error", model.exp_error);
  model.tanh_error = declared.value("tanh_error", model.tanh_error);
  model.softplus_error = declared.value("softplus_error", model.softplus_error);
  model.rsqrt_error = declared.value("rsqrt_error", model.rsqrt_error);
  model.truncating_accumulator = declared.value("truncating_accumulator", false);
  model.atomics = declared.value("atomics", false);
  return model;
}

std::optional<RunStatus> status_from(const std::string& word) {
  if (word == "ran") return RunStatus::ran;
  if (word == "unsupported") return RunStatus::unsupported;
  if (word == "failed") return RunStatus::failed;
  if (word == "out_of_memory") return RunStatus::out_of_memory;
  return std::nullopt;
}

/// Of a call whose child something outside kills. One that eats the machine's memory is killed each
/// time.
constexpr int kAttempts = 24;

class HostedCandidate : public Candidate {
 public:
  HostedCandidate(std::unique_ptr<WorkerLink> link, WorkerKind kind, const PrecisionModel& model,
                  const FormRequest& form)
      : link_(std::move(link)), kind_(kind), asked_(model), form_(form) {
    try {
      read_description(link_->describe());
    } catch (const json::exception& error) {
      throw InputError(std::string("the candidate's host answers nonsense: ") + error.what());
    }
  }

  const CandidateInfo& info() const override { return info_; }

  int lost_children() const override { return lost_children_; }

  void give_up_at(std::optional<std::chrono::steady_clock::time_point> when) override {
    link_->give_up_at(when);
  }

  RunResult run(const ValidCase& c, bool gradients) override {
    return run_laid_out(c, gradients, {});
  }

  RunResult run_laid_out(const ValidCase& c, bool gradients, const CallLayout& layout) override {
    RunRequest request;
    request.gradients = gradients && can_backward(c.data.op);
    request.layout = layout;
    request.form = form_;
    if (const auto chunk = c.data.options.find("chunk");
        chunk != c.data.options.end() && form_.chunk == 0) {
      request.form.chunk = std::get<std::int64_t>(chunk->second);
    }
    RunResult result;
    const std::string bytes = request_tensors(c);
    for (const auto& [output, final_state] : storage_plans()) {
      request.output = output;
      request.final_state = final_state;
      result = run_once(c, request, bytes);
      if (result.status != RunStatus::unsupported) break;
    }
    if (result.status == RunStatus::ran && gradients && !request.gradients) {
      result.detail = "forward only: no backward is declared for " + c.data.op;
    }
    return result;
  }

 private:
  void read_description(const json& description) {
    info_.name = printable(description.value("name", "unnamed"));
    info_.has_backward = false;
    for (const json& entry : description.at("operations")) {
      const std::string name = entry.at("name");
      info_.operations.push_back(name);
      for (const json& capability : entry.at("capabilities")) {
        if (capability == "backward") backward_.insert(name);
      }
    }
    info_.has_backward =
        kind_ == WorkerKind::python ? description.value("has_backward", true) : !backward_.empty();
    if (const std::string preset = description.value("model", ""); !preset.empty()) {
      info_.model = preset_model(preset);
    }
    for (const json& declared : description.value("models", json::array())) {
      const PrecisionModel model = model_from_json(declared);
      const bool fits = model.input == asked_.input;
      if (!info_.model || (fits && info_.model->input != asked_.input)) info_.model = model;
    }
    if (info_.model && form_.form != "any") {  // asked for one form, it computes no other
      info_.model->form = parse_form(form_.form);
      info_.model->form_declared = true;
      if (form_.chunk > 0) info_.model->chunk = static_cast<int>(form_.chunk);
    }
  }

  bool can_backward(const std::string& op) const {
    return info_.operations.empty() ? info_.has_backward : backward_.count(op) != 0;
  }

  /// Dtypes of outputs and of final states, the preferred ones first: most kernels hand over states
  /// in the format they carry them in, some in that of the other outputs.
  std::vector<std::pair<DType, DType>> storage_plans() const {
    const PrecisionModel& model =
        info_.model && info_.model->input == asked_.input ? *info_.model : asked_;
    const DType output = storage_dtype(model.output), state = storage_dtype(model.final_state);
    if (kind_ == WorkerKind::python || output == state) return {{output, state}};
    return {{output, state}, {output, output}};
  }

  RunResult run_once(const ValidCase& c, const RunRequest& request, const std::string& bytes) {
    WorkerLink::Answer answer = link_->call(request_json(c, request), bytes);
    for (int attempt = 1; answer.killed_from_outside && attempt < kAttempts; ++attempt) {
      ++lost_children_;
      answer = link_->call(request_json(c, request), bytes);
    }
    RunResult result;
    result.status = answer.status;
    result.detail = answer.detail;
    if (answer.status != RunStatus::ran) return result;
    try {
      read_answer(c, request.gradients, answer.reply, result);
    } catch (const std::exception& error) {
      // Whoever overwrites the host's memory can make it say anything.
      result = {};
      result.status = RunStatus::failed;
      result.detail =
          std::string("the candidate's host answers nonsense: ") + printable(error.what(), kDetail);
    }
    return result;
  }

  void read_answer(const ValidCase& c, bool gradients, const json& reply, RunResult& result) {
    const auto status = status_from(reply.at("status"));
    if (!status) throw InputError("status " + reply.at("status").dump());
    result.status = *status;
    result.detail = printable(reply.value("detail", ""), kDetail);
    result.seconds = reply.value("seconds", 0.0);
    for (const json& entry : reply.value("hygiene", json::array())) {
      result.hygiene.push_back({printable(entry.at("kind").get<std::string>()),
                                printable(entry.at("tensor").get<std::string>()),
                                printable(entry.at("detail").get<std::string>(), kDetail)});
    }
    if (result.status != RunStatus::ran) return;
    const auto size = reply.at("bytes").get<std::uint64_t>();
    std::set<std::string> declined;
    for (const json& name : reply.value("declined", json::array())) declined.insert(name);
    take_tensors(c, gradients, parse_safetensors(link_->reply_bytes(size), info_.name), declined,
                 result);
    for (const HygieneFinding& h : result.hygiene) declined.erase(h.tensor);  // named there
    result.declined = std::move(declined);
    for (const json& name : reply.value("untyped", json::array())) {
      result.stored.erase(name.get<std::string>());
    }
  }

  std::unique_ptr<WorkerLink> link_;
  WorkerKind kind_;
  PrecisionModel asked_;
  FormRequest form_;
  CandidateInfo info_;
  std::set<std::string> backward_;  // operations
  int lost_children_ = 0;
};

}  // namespace

std::unique_ptr<Candidate> make_hosted_candidate(std::unique_ptr<WorkerLink> link, WorkerKind kind,
                                                 const PrecisionModel& model,
                                                 const FormRequest& form) {
  return std::make_unique<HostedCandidate>(std::move(link), kind, model, form);
}

}  // namespace assay
