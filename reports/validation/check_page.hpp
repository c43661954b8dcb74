// The verdicts of `assay check` as a page: what was judged, and for the worst case of every
// operation where its error lies, how it is distributed and how it grows.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "checks/verdict/check.hpp"
#include "reports/render/page.hpp"

namespace assay {

/// Takes pictures while a check runs; of every operation the first finding, or else the case with
/// the largest z. Cheap to keep: a few thousand numbers an operation.
class CheckPictures {
 public:
  void add(const Verdict& verdict, const Evidence& evidence);
  /// The figure of an operation; nothing when no case of it could be compared.
  const render::Figure* of(const std::string& op) const;

 private:
  struct Picture {
    bool finding = false;
    double z = -1;
    render::Figure figure;
  };
  std::map<std::string, Picture> pictures_;
};

/// One section per operation: the cases, and the picture.
std::vector<render::Section> check_sections(const CheckReport& report,
                                            const CheckPictures& pictures);

render::Page check_page(const CheckReport& report, const CheckPictures& pictures,
                        const std::string& command);

}  // namespace assay
