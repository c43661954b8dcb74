// A finding that is kept: its folder, the minimal case beside it, and where it sits.
#pragma once

#include <functional>
#include <string>

#include "fuzz/campaign/examine.hpp"
#include "fuzz/campaign/record.hpp"
#include "fuzz/campaign/shrink.hpp"

namespace assay {

struct KeepRequest {
  std::string folder;     // of the campaign
  std::string candidate;  // as a command line from anywhere has it
  ShrinkRequest shrink = {};
};

/// Writes failures/<op>-<hash>/ (checks/output/failure_folder.hpp) with finding.json, shrinks, and
/// writes minimal/<op>-<hash>/ below it. Throws InputError when the disk does not take it.
Shrunk keep_finding(Examiner& examiner, const CheckCase& c, const CaseRecord& record,
                    const KeepRequest& request);

/// The first step whose error is beyond what the declared arithmetic does, over all results with a
/// time axis; -1 when there is none.
std::int64_t first_bad_step(const Verdict& verdict, const Evidence& evidence);

/// What there is to say about a minimal case, three lines at most.
std::string shrunk_text(const Shrunk& s);

}  // namespace assay
