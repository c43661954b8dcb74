// The plug-in assay_mpi.so: messages over MPI.
#include <mpi.h>

#include <cstdlib>

#include "fuzz/campaign/cluster.hpp"

namespace {

constexpr int kTag = 1;

class MpiCluster final : public assay::Cluster {
 public:
  MpiCluster() {
    // Calls come from the main thread alone.
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  ~MpiCluster() override { MPI_Finalize(); }
  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void send(int to, const std::string& message) override {
    MPI_Send(message.data(), static_cast<int>(message.size()), MPI_CHAR, to, kTag, MPI_COMM_WORLD);
  }

  bool receive(int& from, std::string& message) override {
    int there = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, kTag, MPI_COMM_WORLD, &there, &status);
    if (there == 0) return false;
    int count = 0;
    MPI_Get_count(&status, MPI_CHAR, &count);
    from = status.MPI_SOURCE;
    message.resize(static_cast<std::size_t>(count));
    MPI_Recv(message.data(), count, MPI_CHAR, from, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return true;
  }

 private:
  int rank_ = 0, size_ = 1;
};

}  // namespace

extern "C" assay::Cluster* assay_make_cluster() { return new MpiCluster; }
