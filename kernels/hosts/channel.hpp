// The host's end of the line to its parent. PROTOCOL.md says what goes over it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace assay::hosts {

/// Three file descriptors that the parent opened: a socket for JSON lines and two files in shared
/// memory with the tensors of the request and of the reply.
class Channel {
 public:
  Channel(int control, int request, int reply);

  /// The next request; false when the parent has gone. Throws for what is no JSON.
  bool receive(nlohmann::json& request);
  /// The tensors of the request that was received last.
  std::string request_bytes(std::size_t size) const;
  /// Puts the tensors into the reply's file.
  void write_reply_bytes(const std::string& bytes);
  void send(const nlohmann::json& reply);

  /// Starts a thread that ends the process when the parent dies, whatever a kernel is doing.
  void die_with_parent() const;

 private:
  int control_, request_, reply_;
  std::string pending_;
};

}  // namespace assay::hosts
