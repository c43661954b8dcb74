// Candidates that another process runs: plug-ins in assay-host, Python functions in assay_worker.
#pragma once

#include <memory>
#include <string>

#include "checks/candidate/exchange.hpp"
#include "checks/candidate/worker_link.hpp"

namespace assay {

/// Which worker runs it decides what the request may hold: a kernel is given memory of certain
/// dtypes to write into, a function brings its own.
enum class WorkerKind { kernel_host, python };

/// Starts the worker and asks what it serves. Throws InputError. `model` chooses among the
/// precisions that a plug-in declares and gives the dtypes of outputs.
std::unique_ptr<Candidate> make_hosted_candidate(std::unique_ptr<WorkerLink> link, WorkerKind kind,
                                                 const PrecisionModel& model,
                                                 const FormRequest& form);

}  // namespace assay
