// The other processes of a campaign that mpirun or srun started. MPI stands in a plug-in of its
// own, so that a program without it needs none of its libraries.
#pragma once

#include <memory>
#include <string>

namespace assay {

class Cluster {
 public:
  virtual ~Cluster() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Whole messages between ranks; `receive` returns at once, with false when there is none.
  virtual void send(int to, const std::string& message) = 0;
  virtual bool receive(int& from, std::string& message) = 0;
};

/// Null when this process was started alone. Throws InputError when it was started by mpirun, but
/// the program was built without MPI. To be called once.
std::unique_ptr<Cluster> join_cluster();

}  // namespace assay
