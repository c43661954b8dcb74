// Products of Jacobians along the true trajectory of a recurrence that is not linear in its state.
#pragma once

#include "reports/stability/stability.hpp"

namespace assay::reports {

UnitStability nonlinear_unit(const Trace& trace, const TraceUnit& where);

}  // namespace assay::reports
