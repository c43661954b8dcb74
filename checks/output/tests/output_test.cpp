#include <catch2/catch.hpp>

#include "checks/output/evaluation_text.hpp"
#include "checks/output/json_output.hpp"
#include "checks/output/progress.hpp"

namespace {

TEST_CASE("output: durations", "[output]") {
  CHECK(assay::duration_text(0.04) == "0.0 s");
  CHECK(assay::duration_text(3.25) == "3.2 s");
  CHECK(assay::duration_text(59.97) == "1 min 00 s");
  CHECK(assay::duration_text(245) == "4 min 05 s");
}

assay::Evaluation small_evaluation() {
  assay::Evaluation e;
  e.op = "toy";
  e.digits = 3;
  e.bits = 64;
  e.outputs["o"] = {{1, 3}, {"1.25", "-2.00", "3.0e-7"}, {1.25, -2, 3e-7}};
  e.gradients["d_q"] = {{1}, {"0"}, {0}};
  e.notes = {"a note"};
  return e;
}

TEST_CASE("output/json: an evaluation", "[output]") {
  const assay::Json json = assay::to_json(small_evaluation());
  CHECK(json.dump() ==
        R"({"schema_version":1,"op":"toy","digits":3,"engine":"ball","form":"recurrent","bits":64,)"
        R"("outputs":{"o":{"shape":[1,3],"values":["1.25","-2.00","3.0e-7"]}},)"
        R"("gradients":{"d_q":{"shape":[1],"values":["0"]}},"notes":["a note"]})");
}

TEST_CASE("output/json: an operation's schema, open bounds are null", "[output]") {
  assay::Schema schema;
  schema.op = "toy";
  assay::InputSpec input;
  input.name = "alpha";
  input.axes = "BTH";
  input.domain = {0, assay::kInf};
  input.log_name = "log_alpha";
  schema.inputs = {input};
  const assay::Json json = assay::to_json(schema);
  CHECK(json["inputs"][0]["domain"].dump() == "[0.0,null]");
  CHECK(json["inputs"][0]["log_name"] == "log_alpha");
  CHECK(json["forms"].dump() == R"(["recurrent"])");
}

TEST_CASE("output/text: an evaluation shows the largest magnitude, digits and notes", "[output]") {
  const std::string text = assay::evaluation_text(small_evaluation());
  CAPTURE(text);
  CHECK(text.find("3 certain digits from the ball engine at 64 bits") != std::string::npos);
  CHECK(text.find("max |.| 2.000000e+00") != std::string::npos);
  CHECK(text.find("[0,1]") != std::string::npos);
  CHECK(text.find("a note") != std::string::npos);
}

TEST_CASE("output/progress: a short job prints nothing", "[output]") {
  assay::Progress progress("job");
  progress.update(0.5, "work");
  progress.callback()(0.9, "work");
  progress.clear();
  assay::Progress off("job", false);
  CHECK_FALSE(off.callback());
}

}  // namespace
