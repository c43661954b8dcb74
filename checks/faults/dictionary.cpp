#include <algorithm>
#include <map>
#include <mutex>

#include "checks/faults/entry.hpp"
#include "reference/case/text.hpp"

namespace assay {

const std::vector<const Fault*>& faults() {
  static const FaultList owned = [] {
    FaultList list;
    add_delta_faults(list);
    add_gradient_faults(list);
    add_layout_faults(list);
    add_m2rnn_faults(list);
    add_mdn_chunk_faults(list);
    add_mdn_faults(list);
    add_mom_faults(list);
    add_part_faults(list);
    add_state_faults(list);
    add_time_faults(list);
    std::sort(list.begin(), list.end(),
              [](const auto& a, const auto& b) { return a->info().id < b->info().id; });
    return list;
  }();
  static const std::vector<const Fault*> all = [] {
    std::vector<const Fault*> list;
    for (const auto& fault : owned) list.push_back(fault.get());
    return list;
  }();
  return all;
}

const Fault& find_fault(const std::string& id) {
  std::vector<std::string> known;
  for (const Fault* fault : faults()) {
    if (fault->info().id == id) return *fault;
    known.push_back(fault->info().id);
  }
  const std::string prefix = "*.zero_gradient:";
  if (id.size() > prefix.size() && id.starts_with(prefix)) {
    static std::map<std::string, std::unique_ptr<Fault>> made;
    static std::mutex mutex;
    const std::lock_guard<std::mutex> lock(mutex);
    std::unique_ptr<Fault>& fault = made[id];
    if (!fault) fault = zero_gradient_of(id.substr(prefix.size()));
    return *fault;
  }
  throw InputError("unknown fault " + quote_name(id) + did_you_mean(id, known) +
                   " (assay list faults)");
}

}  // namespace assay
