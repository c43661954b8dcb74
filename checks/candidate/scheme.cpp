#include "checks/candidate/scheme.hpp"

#include <cstdlib>
#include <filesystem>

#include "checks/candidate/hosted.hpp"
#include "checks/candidate/locate.hpp"
#include "checks/candidate/outputs_file.hpp"
#include "reference/case/text.hpp"

namespace assay {
namespace {

struct Entry {
  CandidateScheme scheme;
  CandidateFactory factory;
};

/// A host built with the address sanitizer reserves terabytes; a limit would end it at once.
RunLimits host_limits(RunLimits limits) {
#if defined(__SANITIZE_ADDRESS__)
  limits.memory_bytes = 0;
#endif
  return limits;
}

std::unique_ptr<Candidate> open_plugin(const std::string& path, const PrecisionModel& model,
                                       const RunLimits& limits, const FormRequest& form) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    throw InputError("candidate " + quote_name(path) + ": there is no such file");
  }
  const std::string host = find_part("ASSAY_HOST", "assay-host");
  if (host.empty()) {
    throw InputError(
        "assay-host, which runs plug-ins, lies neither beside this program nor in its "
        "libexec/assay; ASSAY_HOST can name it");
  }
  ChildCommand command;
  command.arguments = {host, "--serve", "3", "4", "5", std::filesystem::absolute(path).string()};
  return make_hosted_candidate(WorkerLink::to_child(std::move(command), host_limits(limits)),
                               WorkerKind::kernel_host, model, form);
}

/// Kernels that this program brings along, as a plug-in like any other.
std::unique_ptr<Candidate> open_built_in(const char* variable, const std::string& file,
                                         const std::string& what, const PrecisionModel& model,
                                         const RunLimits& limits, const FormRequest& form) {
  const std::string path = find_part(variable, file);
  if (path.empty()) {
    throw InputError("the built-in " + what + " kernels (" + file +
                     ") are not there: not built, or not installed; " + variable +
                     " can name them");
  }
  return open_plugin(path, model, limits, form);
}

std::unique_ptr<Candidate> open_python(const std::string& function, const PrecisionModel& model,
                                       const RunLimits& limits) {
  if (function.find(':') == std::string::npos) {
    throw InputError("candidate python:" + function + ": python:module:function is needed");
  }
  const char* given = std::getenv("ASSAY_PYTHON");
  const std::string name = given != nullptr && *given != '\0' ? given : "python3";
  const std::string python = find_program(name);
  if (python.empty()) {
    throw InputError("no Python interpreter " + quote_name(name) + "; ASSAY_PYTHON can name one");
  }
  ChildCommand command;
  command.arguments = {python, "-m", "assay_worker", "--serve", "3", "4", "5", function};
  command.environment = {"PYTHONUNBUFFERED=1"};  // what Python prints must be out before it crashes
  if (const std::string folder = worker_package_folder(); !folder.empty()) {
    const char* path = std::getenv("PYTHONPATH");
    const bool more = path != nullptr && *path != '\0';
    command.environment.push_back("PYTHONPATH=" + folder + (more ? std::string(":") + path : ""));
  }
  return make_hosted_candidate(WorkerLink::to_child(std::move(command), limits), WorkerKind::python,
                               model, {});
}

/// "3,4,5": socket, request file and reply file, opened by the parent of this process.
std::unique_ptr<Candidate> open_inherited(const std::string& text, const PrecisionModel& model,
                                          const RunLimits& limits) {
  const std::vector<std::string> parts = split(text, ',');
  std::array<int, 3> descriptors{};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto number = parts.size() == 3 ? parse_integer(parts[i]) : std::nullopt;
    if (!number || *number < 0 || *number > 1'000'000) {
      throw InputError("candidate python-fd:" + text +
                       ": three descriptors are needed, socket,request,reply");
    }
    descriptors[i] = static_cast<int>(*number);
  }
  return make_hosted_candidate(WorkerLink::to_inherited(descriptors, limits), WorkerKind::python,
                               model, {});
}

std::vector<Entry>& entries() {
  static std::vector<Entry> all = {
      {{"python", "python:module:function", "a Python function: NumPy, PyTorch, Triton, JAX"},
       open_python},
      {{"python-fd", "python-fd:C,Q,R", "a function of the process that started this program"},
       open_inherited},
      {{"outputs", "outputs:FILE", "results computed elsewhere, for one case"},
       [](const std::string& rest, const PrecisionModel&, const RunLimits&) {
         return open_outputs_file(rest);
       }},
  };
  return all;
}

/// Takes "@chunk=32" off the end of a SPEC.
FormRequest take_form(std::string& spec) {
  const std::size_t at = spec.rfind('@');
  if (at == std::string::npos) return {};
  FormRequest request;
  const std::vector<std::string> parts = split(std::string_view(spec).substr(at + 1), '=');
  if (parts.empty() || parts.size() > 2) return {};
  if (parts[0] != "recurrent" && parts[0] != "chunk" && parts[0] != "chunk_log") return {};
  request.form = parts[0];
  if (parts.size() == 2) {
    const auto chunk = parse_integer(parts[1]);
    if (!chunk || *chunk < 1) {
      throw InputError("candidate " + quote_name(spec) + ": a chunk length is a positive integer");
    }
    request.chunk = *chunk;
  }
  spec.resize(at);
  return request;
}

bool is_plugin_path(const std::string& spec) {
  return spec.size() > 3 && spec.compare(spec.size() - 3, 3, ".so") == 0;
}

std::string known_forms() {
  std::vector<std::string> forms;
  for (const CandidateScheme& scheme : candidate_schemes()) forms.push_back(scheme.form);
  return join(forms, ", ");
}

}  // namespace

void register_candidate_scheme(const std::string& prefix, const std::string& form,
                               const std::string& doc, CandidateFactory factory) {
  for (Entry& entry : entries()) {
    if (entry.scheme.prefix != prefix) continue;
    entry = {{prefix, form, doc}, std::move(factory)};
    return;
  }
  entries().push_back({{prefix, form, doc}, std::move(factory)});
}

std::vector<CandidateScheme> candidate_schemes() {
  std::vector<CandidateScheme> schemes = {{"cpu", "cpu", "the built-in kernels for the CPU"},
                                          {"cuda", "cuda", "the built-in kernels for NVIDIA GPUs"},
                                          {"", "path.so", "a plug-in of the kernel interface"}};
  for (const Entry& entry : entries()) schemes.push_back(entry.scheme);
  return schemes;
}

void Candidate::give_up_at(std::optional<std::chrono::steady_clock::time_point>) {}

RunResult Candidate::run_laid_out(const ValidCase& c, bool gradients, const CallLayout& layout) {
  if (!layout.strided) return run(c, gradients);
  RunResult result;
  result.status = RunStatus::unsupported;
  result.detail = "has no tensors in memory";
  return result;
}

std::unique_ptr<Candidate> open_candidate(const std::string& spec, const PrecisionModel& model,
                                          const RunLimits& limits) {
  const std::size_t colon = spec.find(':');
  const std::string prefix = spec.substr(0, colon);
  const std::string rest = colon == std::string::npos ? "" : spec.substr(colon + 1);
  for (const Entry& entry : entries()) {
    if (entry.scheme.prefix == prefix) return entry.factory(rest, model, limits);
  }
  std::string name = spec;
  const FormRequest form = take_form(name);
  if (name == "cpu") {
    return open_built_in("ASSAY_KERNELS_CPU", "assay_kernels_cpu.so", "CPU", model, limits, form);
  }
  if (name == "cuda") {
    return open_built_in("ASSAY_KERNELS_CUDA", "assay_kernels_cuda.so", "CUDA", model, limits,
                         form);
  }
  if (is_plugin_path(name)) return open_plugin(name, model, limits, form);
  throw InputError("candidate " + quote_name(spec) + ": known are " + known_forms());
}

}  // namespace assay
