// What a dying host still says: the signal, the address, and the tensor that lies next to it.
#pragma once

#include <string>

#include "kernels/hosts/guarded_buffer.hpp"

namespace assay::hosts {

/// From now on a crash writes one JSON line to this file descriptor before the process dies of its
/// signal: {"crash":11,"address":"0x..","where":"..","data_bytes":..}.
void report_crashes_to(int fd);

/// The buffers that the report may name, until `forget_buffers`.
void remember_buffer(const std::string& name, const GuardedBuffer& buffer);
void forget_buffers();

}  // namespace assay::hosts
