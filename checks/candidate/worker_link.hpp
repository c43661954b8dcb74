// The line to a process that runs kernels: JSON lines on a socket, tensors in two files in shared
// memory. kernels/hosts/PROTOCOL.md is the protocol.
#pragma once

#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "checks/candidate/candidate.hpp"
#include "checks/candidate/child.hpp"

namespace assay {

class WorkerLink {
 public:
  struct Answer {
    RunStatus status = RunStatus::ran;  // ran: `reply` is what the worker said
    std::string detail;
    nlohmann::json reply;
    bool killed_from_outside = false;  // somebody else's SIGKILL ended the child
  };

  /// A child that is started by the first call and started again after it ended.
  static std::unique_ptr<WorkerLink> to_child(ChildCommand command, const RunLimits& limits);
  /// A process that is there already, by descriptors that this process inherited: socket, request
  /// file, reply file. It can be neither limited nor killed.
  static std::unique_ptr<WorkerLink> to_inherited(const std::array<int, 3>& descriptors,
                                                  const RunLimits& limits);

  /// Sends a request with tensors and waits for its answer, never longer than the limit. A restart
  /// that fails is the answer too. Throws Interrupted when a StopSignal comes and the answer does
  /// not.
  Answer call(nlohmann::json request, std::string_view bytes);
  /// From then on a call that has no answer yet throws Interrupted.
  void give_up_at(std::optional<std::chrono::steady_clock::time_point> when) {
    end_of_time_ = when;
  }
  /// The tensors of the last answer.
  std::string reply_bytes(std::size_t size) const;
  /// What the worker says of itself; starts it. Throws InputError when that fails.
  const nlohmann::json& describe();

 private:
  WorkerLink(ChildCommand command, const RunLimits& limits);

  void start();
  bool connected() const { return control_.get() >= 0; }
  bool send_line(const std::string& line);
  Answer exchange(nlohmann::json request, double seconds);
  Answer wait_for(std::int64_t id, double seconds);
  /// A line of the worker's: the answer to `id` goes into `answer`, a last word is kept, and so is
  /// what is no JSON.
  bool take_line(std::int64_t id, Answer& answer);
  Answer lost();
  Answer timed_out(double seconds);
  void close();

  ChildCommand command_;
  RunLimits limits_;
  std::unique_ptr<Child> child_;
  Fd control_, request_file_, reply_file_;
  bool restartable_ = true;
  std::optional<std::chrono::steady_clock::time_point> end_of_time_;
  std::string received_, traceback_;
  nlohmann::json last_word_, description_;
  std::int64_t next_id_ = 0;
};

}  // namespace assay
