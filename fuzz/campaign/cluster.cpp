#include "fuzz/campaign/cluster.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

#include "reference/case/tensor.hpp"
#include "reference/case/text.hpp"

namespace assay {
namespace {

/// What mpirun and srun leave in the environment of what they start.
int started_together() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "ASSAY_MPI_SIZE"}) {
    const char* text = std::getenv(name);
    if (text == nullptr) continue;
    if (const auto n = parse_integer(text); n && *n > 0) return static_cast<int>(*n);
  }
  // srun --mpi=pmix says how many there are in its own variable.
  const char* steps = std::getenv("SLURM_STEP_NUM_TASKS");
  if (std::getenv("PMIX_RANK") != nullptr && steps != nullptr) {
    return static_cast<int>(parse_integer(steps).value_or(1));
  }
  return 1;
}

std::string plugin_path() {
  if (const char* given = std::getenv("ASSAY_MPI"); given != nullptr && *given != '\0') {
    return given;
  }
  std::error_code error;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  for (const char* place : {"assay_mpi.so", "../libexec/assay/assay_mpi.so"}) {
    const auto path = folder / place;
    if (std::filesystem::is_regular_file(path, error)) return path.string();
  }
  return "";
}

}  // namespace

std::unique_ptr<Cluster> join_cluster() {
  const int size = started_together();
  if (size == 1) return nullptr;
  const std::string path = plugin_path();
  if (path.empty()) {
    throw InputError("started as one of " + std::to_string(size) +
                     " processes, but this program was built without MPI (assay_mpi.so)");
  }
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) throw InputError(path + ": " + dlerror());
  auto* make = reinterpret_cast<Cluster* (*)()>(dlsym(library, "assay_make_cluster"));
  if (make == nullptr) throw InputError(path + ": is no MPI plug-in of this program");
  return std::unique_ptr<Cluster>(make());
}

}  // namespace assay
