#include "reports/trace/box.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "reference/case/text.hpp"
#include "reference/oracle/registry.hpp"

namespace assay::reports {
namespace {

constexpr std::array<const char*, 5> kNames = {"alpha", "beta", "mu", "eta", "kappa"};

[[noreturn]] void refuse(const std::string& text, const std::string& what) {
  throw InputError("gate box " + quote_name(text) + ": " + what);
}

/// Gates that the operation has, kappa for those with a key.
std::map<std::string, Range> gates_of(const std::string& op, const std::string& text) {
  if (op != "mdn" && op != "gdn" && op != "delta") {
    refuse(text, "boxes are of mdn, gdn or delta; other operations take --trace");
  }
  const Schema schema = find_operation(op).schema(nullptr);
  std::map<std::string, Range> gates;
  for (const char* name : kNames) {
    const InputSpec* input = schema.find_input(name);
    if (input != nullptr) gates[name] = {input->domain.lo, input->domain.hi};
  }
  gates["kappa"] = {1, 1};
  return gates;
}

Range parse_range(const std::string& value, const std::string& text) {
  const std::vector<std::string> ends = split(value, ':');
  const auto lo = ends.empty() ? std::nullopt : parse_real(ends[0]);
  const auto hi = ends.size() == 2 ? parse_real(ends[1]) : lo;
  if (!lo || !hi || ends.size() > 2 || !std::isfinite(*lo) || !std::isfinite(*hi)) {
    refuse(text, quote_name(value) + " is no number and no lo:hi");
  }
  if (*lo > *hi) refuse(text, "in " + quote_name(value) + " the lower end is above the upper one");
  return {*lo, *hi};
}

GatePoint clipped(const GateBox& box, std::array<double, 5> u) {
  GatePoint point;
  std::array<double*, 5> to = {&point.alpha, &point.beta, &point.mu, &point.eta, &point.kappa};
  // eta first: with coupling it bounds the others.
  for (const int n : {3, 2, 4, 0, 1}) {
    const auto found = box.gates.find(kNames[n]);
    if (found == box.gates.end()) continue;
    Range range = found->second;
    const double cosine2 = 1 / (1 + box.s * box.s * point.eta * point.eta);
    if (box.coupling == GateBox::Coupling::coupled && n == 0)
      range.hi = std::min(range.hi, cosine2);
    if (box.coupling == GateBox::Coupling::coupled && n == 1) {
      range.hi = std::min(range.hi, 1 - cosine2);
    }
    if (box.coupling == GateBox::Coupling::decoupled && n == 1) {
      range.hi = std::min(range.hi, 1 - point.alpha);
    }
    range.lo = std::min(range.lo, range.hi);
    *to[n] = range.lo + u[n] * (range.hi - range.lo);
  }
  return point;
}

}  // namespace

GateBox parse_box(const std::string& text) {
  GateBox box;
  box.text = text;
  const std::size_t colon = text.find(':');
  box.op = text.substr(0, colon);
  find_operation(box.op);  // names the nearest known one
  box.gates = gates_of(box.op, text);
  const std::map<std::string, Range> domain = box.gates;
  for (const std::string& part :
       split(colon == std::string::npos ? "" : text.substr(colon + 1), ',')) {
    if (part == "coupled" || part == "decoupled") {
      if (box.op != "mdn") refuse(text, quote_name(part) + " is of mdn only");
      box.coupling = part == "coupled" ? GateBox::Coupling::coupled : GateBox::Coupling::decoupled;
      continue;
    }
    const std::size_t equals = part.find('=');
    const std::string name = part.substr(0, equals);
    if (equals == std::string::npos) refuse(text, quote_name(part) + " is no name=lo:hi");
    const Range range = parse_range(part.substr(equals + 1), text);
    if (name == "s") {
      if (!(range.lo > 0) || range.lo != range.hi) refuse(text, "s must be one number above 0");
      box.s = range.lo;
      continue;
    }
    const bool log = name == "log_mu" || name == "log_alpha";
    const std::string gate = log ? name.substr(4) : name;
    const auto found = box.gates.find(gate);
    if (found == box.gates.end()) {
      std::vector<std::string> known;
      for (const auto& entry : box.gates) known.push_back(entry.first);
      refuse(text, box.op + " has no gate " + quote_name(name) + did_you_mean(name, known));
    }
    found->second = log ? Range{std::exp(range.lo), std::exp(range.hi)} : range;
    const Range& legal = domain.at(gate);
    const bool inside = gate == "kappa"
                            ? found->second.lo >= 0
                            : found->second.lo >= legal.lo && found->second.hi <= legal.hi;
    if (!inside) {
      refuse(text, name + " must lie in [" + number_text(gate == "kappa" ? 0 : legal.lo) + ", " +
                       (gate == "kappa" ? "inf" : number_text(legal.hi)) + "]");
    }
  }
  return box;
}

std::vector<GatePoint> box_points(const GateBox& box, int count) {
  std::vector<GatePoint> points;
  for (int corner = 0; corner < 32; ++corner) {
    std::array<double, 5> u;
    for (int n = 0; n < 5; ++n) u[n] = corner >> n & 1;
    points.push_back(clipped(box, u));
  }
  // x_i = i / φ^n mod 1 with φ^6 = φ + 1: evenly spread in five dimensions.
  double phi = 1;
  for (int i = 0; i < 60; ++i) phi = std::pow(1 + phi, 1.0 / 6);
  for (int i = 1; i <= count; ++i) {
    std::array<double, 5> u;
    for (int n = 0; n < 5; ++n) {
      const double x = i / std::pow(phi, n + 1) + 0.5;
      u[n] = x - std::floor(x);
    }
    points.push_back(clipped(box, u));
  }
  return points;
}

}  // namespace assay::reports
