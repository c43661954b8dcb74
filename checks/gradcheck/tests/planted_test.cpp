// Each gradient check must reject a dropped term, a wrong sign and a stale state, and name the
// input.
#include "checks/gradcheck/tests/planted.hpp"

#include <catch2/catch.hpp>

#include "checks/gradcheck/gradcheck.hpp"
#include "reference/case/generate.hpp"

namespace {

using namespace assay;           // NOLINT
using namespace assay::planted;  // NOLINT

ValidCase make_case(const Operation& operation, const std::string& shape,
                    const std::vector<std::string>& options = {}) {
  const auto provider = [&](const Case* data) { return operation.schema(data); };
  GenerateRequest request;
  request.op = operation.name();
  request.shape = shape;
  request.options = options;
  request.seed = 7;
  Case data = generate(provider, request);
  return validate(std::move(data), provider(nullptr));
}

const std::string kGdnShape = "B=2,T=4,H=2,K=3,V=2", kM2rnnShape = "B=1,T=4,N=2,K=2,V=3";

/// The outcome of one check of the recurrent form.
CheckOutcome run(const Operation& operation, const std::string& shape, const std::string& check) {
  const ValidCase c = make_case(operation, shape);
  GradcheckRequest request;
  request.checks = {check};
  const GradcheckReport report = gradcheck_with(operation, c, request);
  REQUIRE(!report.outcomes.empty());
  return report.outcomes.front();
}

void must_reject(const Operation& operation, const std::string& shape, const std::string& check,
                 const std::string& tensor) {
  const CheckOutcome outcome = run(operation, shape, check);
  INFO(operation.name() << " " << check << ": " << outcome.detail);
  for (const std::string& line : outcome.lines) UNSCOPED_INFO(line);
  CHECK(outcome.status == CheckOutcome::Status::failed);
  CHECK(outcome.worst_tensor == tensor);
  CHECK(!outcome.worst_index.empty());
  CHECK(!outcome.lines.empty());
}

template <class Op>
void must_reject(const std::string& shape, const std::string& check, const std::string& tensor) {
  must_reject(Planted<Op>(), shape, check, tensor);
}

TEST_CASE("gradcheck/planted: the unchanged operations pass bound the same way",
          "[gradcheck][planted]") {
  const std::string check = GENERATE("G1", "G2", "G3", "G4");
  CHECK(run(Planted<Gdn>(), kGdnShape, check).status == CheckOutcome::Status::passed);
  CHECK(run(Planted<M2rnn>(), kM2rnnShape, check).status == CheckOutcome::Status::passed);
  CHECK(run(Planted<Rnn>(), "B=1,T=4,H=2,D=3", check).status == CheckOutcome::Status::passed);
}

TEST_CASE("gradcheck/planted: a dropped term is rejected", "[gradcheck][planted]") {
  const std::string check = GENERATE("G1", "G2", "G3", "G4");
  must_reject<FaultyGdn<GdnFault::dropped_read>>(kGdnShape, check, "k");
  must_reject<FaultyM2rnn<M2rnnFault::dropped_residual>>(kM2rnnShape, check, "v");
}

TEST_CASE("gradcheck/planted: a wrong sign is rejected", "[gradcheck][planted]") {
  const std::string check = GENERATE("G1", "G2", "G3", "G4");
  must_reject<FaultyGdn<GdnFault::wrong_sign>>(kGdnShape, check, "alpha");
  must_reject<FaultyM2rnn<M2rnnFault::wrong_sign>>(kM2rnnShape, check, "f");
}

TEST_CASE("gradcheck/planted: a stale state is rejected", "[gradcheck][planted]") {
  const std::string check = GENERATE("G1", "G2", "G3", "G4");
  must_reject<FaultyGdn<GdnFault::stale_state>>(kGdnShape, check, "alpha");
  must_reject<FaultyM2rnn<M2rnnFault::stale_state>>(kM2rnnShape, check, "q");
}

TEST_CASE("gradcheck/planted: an all-zero gradient is rejected", "[gradcheck][planted]") {
  const std::string check = GENERATE("G1", "G2", "G3", "G4");
  must_reject<FaultyM2rnn<M2rnnFault::zero_gradient>>(kM2rnnShape, check, "w_residual");
}

TEST_CASE("gradcheck/planted: one wrong element is named", "[gradcheck][planted]") {
  const std::string check = GENERATE("G1", "G2", "G3", "G4");
  const CheckOutcome outcome = run(Planted<RnnWrongAtTwo>(), "B=1,T=4,H=1,D=3", check);
  CHECK(outcome.status == CheckOutcome::Status::failed);
  CHECK(outcome.worst_tensor == "x");
  CHECK(outcome.worst_index == "[0,2,0,0]");
}

TEST_CASE("gradcheck/planted: G4 names the step, whatever comes after it", "[gradcheck][planted]") {
  const CheckOutcome late = run(Planted<RnnWrongAtTwo>(), "B=1,T=4,H=2,D=3", "G4");
  CHECK(late.detail == "2 of 8 steps wrong, the first: sequence 0, head 0, step 2");

  const Planted<FaultyGdn<GdnFault::undecayed_state>> undecayed;
  const CheckOutcome state = run(undecayed, kGdnShape, "G4");
  CHECK(state.status == CheckOutcome::Status::failed);
  CHECK(state.worst_tensor == "s0");
  CHECK(state.detail.find("16 of 16 steps wrong, the first: sequence 0, head 0, step 0") !=
        std::string::npos);
}

TEST_CASE("gradcheck/planted: a fault of the chunk form does not hide behind the other form",
          "[gradcheck][planted]") {
  const Planted<FaultyGdn<GdnFault::chunk_sign>> operation;
  const ValidCase c = make_case(operation, kGdnShape, {"chunk=3"});
  const GradcheckReport report = gradcheck_with(operation, c, {});
  REQUIRE(report.outcomes.size() == 8);
  CHECK(report.failed());
  for (std::size_t i = 0; i < report.outcomes.size(); ++i) {
    const CheckOutcome& outcome = report.outcomes[i];
    INFO(outcome.check << " " << outcome.detail);
    const bool chunk = outcome.detail.rfind("chunk form: ", 0) == 0;
    CHECK(chunk == (i >= 4));
    CHECK(outcome.status == (chunk ? CheckOutcome::Status::failed : CheckOutcome::Status::passed));
    if (chunk) CHECK(outcome.worst_tensor == "beta");
  }
}

}  // namespace
