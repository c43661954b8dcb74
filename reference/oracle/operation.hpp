// How a header in `recurrences/` becomes an Operation. At the end of the header:
//
//   ASSAY_OPERATION(Gdn, gdn)
//
// where Gdn has `static Schema schema(const Case*)` and
// `template <class Real> static Engine<Real> make(const ValidCase&)`. CMake finds these lines and
// writes one source file per header that instantiates the operation for every scalar.
#pragma once

#include <string>

#include "reference/oracle/registry.hpp"
#include "reference/scalars/scalars.hpp"

namespace assay {

template <class Op>
class OperationOf final : public Operation {
 public:
  explicit OperationOf(std::string name) : name_(std::move(name)) {}
  Schema schema(const Case* data) const override { return Op::schema(data); }
  std::string name() const override { return name_; }
  bool is_fast_weight() const override {
    return requires { Op::spec(); };
  }
  std::vector<std::string> notes(const ValidCase& c) const override {
    if constexpr (requires { Op::notes(c); }) return Op::notes(c);
    return {};
  }

#define ASSAY_MAKE(Real)                                              \
  Engine<Real> make(const ValidCase& c, const Real*) const override { \
    return Op::template make<Real>(c);                                \
  }
  ASSAY_FOR_EACH_SCALAR(ASSAY_MAKE)
#undef ASSAY_MAKE

 private:
  std::string name_;
};

}  // namespace assay

#define ASSAY_OPERATION(Type, name)    \
  namespace assay {                    \
  const Operation& operation_##name(); \
  }

#define ASSAY_DEFINE_OPERATION(Type, name)       \
  namespace assay {                              \
  const Operation& operation_##name() {          \
    static const OperationOf<Type> entry(#name); \
    return entry;                                \
  }                                              \
  }
