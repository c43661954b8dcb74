#include "fuzz/campaign/record.hpp"

#include <algorithm>
#include <cmath>

#include "reference/case/text.hpp"

namespace assay {
namespace {

/// JSON has no infinities.
Json number(double x) { return std::isfinite(x) ? Json(x) : Json(number_text(x)); }

double number_from(const Json& json) {
  if (json.is_number()) return json.get<double>();
  return parse_real(json.get<std::string>()).value_or(std::nan(""));
}

VerdictKind kind_from(const std::string& name) {
  for (int k = 0; k <= static_cast<int>(VerdictKind::unsupported); ++k) {
    const auto kind = static_cast<VerdictKind>(k);
    if (verdict_name(kind) == name) return kind;
  }
  throw InputError("verdict " + quote_name(name) + " is unknown");
}

/// The largest, and NaN once there is one.
void raise(double& to, double x) {
  if (!(x <= to)) to = x;
}

template <class Map>
Json map_json(const Map& map) {
  Json json = Json::object();
  for (const auto& [key, value] : map) json[key] = value;
  return json;
}

template <class Map>
void read_map(const Json& json, Map& map) {
  for (const auto& [key, value] : json.items()) {
    map[key] = value.template get<typename Map::mapped_type>();
  }
}

}  // namespace

std::string signature_text(const CaseRecord& r) {
  const Signature& s = r.outcome.signature;
  std::string text = r.op + " " + verdict_name(s.kind) + ", " + s.what;
  return s.tensor.empty() ? text : text + ", " + s.tensor;
}

Json record_json(const CaseRecord& r) {
  const Outcome& o = r.outcome;
  Json json = {{"index", r.index},
               {"phase", phase_name(r.phase)},
               {"op", r.op},
               {"line", r.line},
               {"tried", r.tried},
               {"verdict", verdict_name(o.signature.kind)},
               {"full", o.full},
               {"elements", o.elements},
               {"max_z", number(o.max_z)},
               {"rms_z", number(o.rms_z)},
               {"hard_ratio", number(o.hard_ratio)},
               {"growth", number(o.growth)},
               {"seconds", o.seconds},
               {"lost", o.lost_children},
               {"classes", map_json(r.classes)}};
  for (const auto& [key, value] : {std::pair{"what", o.signature.what},
                                   {"tensor", o.signature.tensor},
                                   {"sentence", o.sentence},
                                   {"hash", r.hash},
                                   {"recipe", r.recipe},
                                   {"unbuilt", r.unbuilt}}) {
    if (!value.empty()) json[key] = printable(value, 600);
  }
  return json;
}

CaseRecord record_from(const Json& json) {
  CaseRecord r;
  r.index = json.at("index");
  r.phase = parse_phase(json.at("phase"));
  r.op = json.at("op");
  r.line = json.at("line");
  r.tried = json.at("tried");
  r.hash = json.value("hash", "");
  r.recipe = json.value("recipe", "");
  r.unbuilt = json.value("unbuilt", "");
  read_map(json.at("classes"), r.classes);
  Outcome& o = r.outcome;
  o.signature = {kind_from(json.at("verdict")), json.value("what", ""), json.value("tensor", "")};
  o.sentence = json.value("sentence", "");
  o.full = json.at("full");
  o.elements = json.at("elements");
  o.max_z = number_from(json.at("max_z"));
  o.rms_z = number_from(json.at("rms_z"));
  o.hard_ratio = number_from(json.at("hard_ratio"));
  o.growth = number_from(json.at("growth"));
  o.seconds = json.at("seconds");
  o.lost_children = json.at("lost");
  return r;
}

Json shrunk_json(const Shrunk& s) {
  return {{"folder", s.folder},
          {"cause", s.cause},
          {"hash", s.hash},
          {"line", s.line},
          {"verdict", s.kind},
          {"sizes", map_json(s.sizes)},
          {"steps", s.steps},
          {"capped", s.capped},
          {"first_bad_t", s.first_bad_t},
          {"t_mod_chunk", s.t_mod_chunk},
          {"edge", s.edge}};
}

Shrunk shrunk_from(const Json& json) {
  Shrunk s;
  s.folder = json.at("folder");
  // Journals come from other machines, and folders are copied.
  if (s.folder.rfind("failures/", 0) != 0 || s.folder.find("..") != std::string::npos) {
    throw InputError("folder " + quote_name(s.folder) + ": must be below failures/");
  }
  s.cause = json.at("cause");
  s.hash = json.at("hash");
  s.line = json.at("line");
  s.kind = json.at("verdict");
  read_map(json.at("sizes"), s.sizes);
  s.steps = json.at("steps");
  s.capped = json.at("capped");
  s.first_bad_t = json.at("first_bad_t");
  s.t_mod_chunk = json.at("t_mod_chunk");
  s.edge = json.at("edge");
  return s;
}

void Tally::add(const CaseRecord& r) {
  const Outcome& o = r.outcome;
  if (!r.unbuilt.empty()) {
    ++unbuilt;
    unbuilt_because.emplace(r.op, r.unbuilt);
    return;
  }
  ++verdicts[verdict_name(o.signature.kind)];
  if (o.signature.kind == VerdictKind::unsupported) {
    ++unsupported;
    unsupported_because.emplace(r.op, o.sentence);
    return;
  }
  cases += r.tried;
  elements += o.elements;
  full += o.full;
  by_phase[phase_name(r.phase)] += r.tried;
  by_op[r.op] += r.tried;
  raise(max_hard_ratio, o.hard_ratio);
  raise(max_growth, o.growth);
  mix.add(r.classes);
  if (o.finding()) {
    ++findings;
    ++signatures[signature_text(r)];
  } else {
    // Of what passed: how near it came.
    raise(max_z, o.max_z);
    raise(max_rms_z, o.rms_z);
  }
}

void Tally::add(const Tally& other) {
  cases += other.cases;
  elements += other.elements;
  full += other.full;
  unsupported += other.unsupported;
  unbuilt += other.unbuilt;
  findings += other.findings;
  raise(max_z, other.max_z);
  raise(max_rms_z, other.max_rms_z);
  raise(max_hard_ratio, other.max_hard_ratio);
  raise(max_growth, other.max_growth);
  const auto sum = [](auto& to, const auto& from) {
    for (const auto& [key, count] : from) to[key] += count;
  };
  sum(by_phase, other.by_phase);
  sum(by_op, other.by_op);
  sum(signatures, other.signatures);
  sum(verdicts, other.verdicts);
  for (const auto& [op, why] : other.unsupported_because) unsupported_because.emplace(op, why);
  for (const auto& [op, why] : other.unbuilt_because) unbuilt_because.emplace(op, why);
  for (const auto& [kind, values] : other.mix.counts()) {
    for (const auto& [value, count] : values) mix.add(kind, value, count);
  }
}

Json tally_json(const Tally& t) {
  Json mix = Json::object();
  for (const auto& [kind, values] : t.mix.counts()) mix[kind] = map_json(values);
  return {{"cases", t.cases},
          {"elements", t.elements},
          {"full_verdicts", t.full},
          {"findings", t.findings},
          {"unsupported", t.unsupported},
          {"unbuilt", t.unbuilt},
          {"largest_z", number(t.max_z)},
          {"largest_rms_z", number(t.max_rms_z)},
          {"largest_hard_ratio", number(t.max_hard_ratio)},
          {"largest_growth", number(t.max_growth)},
          {"verdicts", map_json(t.verdicts)},
          {"by_phase", map_json(t.by_phase)},
          {"by_op", map_json(t.by_op)},
          {"signatures", map_json(t.signatures)},
          {"unsupported_because", map_json(t.unsupported_because)},
          {"unbuilt_because", map_json(t.unbuilt_because)},
          {"mix", mix}};
}

Tally tally_from(const Json& json) {
  Tally t;
  t.cases = json.at("cases");
  t.elements = json.at("elements");
  t.full = json.at("full_verdicts");
  t.findings = json.at("findings");
  t.unsupported = json.at("unsupported");
  t.unbuilt = json.at("unbuilt");
  t.max_z = number_from(json.at("largest_z"));
  t.max_rms_z = number_from(json.at("largest_rms_z"));
  t.max_hard_ratio = number_from(json.at("largest_hard_ratio"));
  t.max_growth = number_from(json.at("largest_growth"));
  read_map(json.at("verdicts"), t.verdicts);
  read_map(json.at("by_phase"), t.by_phase);
  read_map(json.at("by_op"), t.by_op);
  read_map(json.at("signatures"), t.signatures);
  read_map(json.at("unsupported_because"), t.unsupported_because);
  read_map(json.at("unbuilt_because"), t.unbuilt_because);
  for (const auto& [kind, values] : json.at("mix").items()) {
    for (const auto& [value, count] : values.items()) t.mix.add(kind, value, count);
  }
  return t;
}

}  // namespace assay
