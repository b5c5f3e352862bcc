// See work.h.
#include "work.h"
#include <cstring>
#include "fault-guard.h"
#include "runtime.h"

namespace emulator {
namespace {

/** With more allocations than this they are looked at when the host waits. */
constexpr size_t kCheckedAllocations = 64;

/** Sizes were checked when the work was given; memory that was freed since then faults. */
template <typename Body>
void touch_memory(Device& device, const char* what, Body body) {
  Fault fault{};
  if (guarded(body, &fault)) return;
  const char* access = fault.write ? " wrote to " : " read from ";
  device.fail(kIllegalAddress, std::string(what) + access + runtime().memory.describe(fault.address));
}

}  // namespace

void CopyWork::run(Device& device) const {
  if (to_device_ && runtime().settings.replay_fault == ReplayFault::stale) {
    touch_memory(device, "a copy", [this, &device] { device.remember(target_, size_bytes_); });
  }
  touch_memory(device, "a copy", [this] { memcpy(target_, source_, size_bytes_); });
}

void FillWork::run(Device& device) const {
  touch_memory(device, "a fill", [this] { memset(target_, byte_, size_bytes_); });
}

LaunchWork::LaunchWork(std::shared_ptr<const Kernel> kernel, const unsigned (&grid)[3], size_t shared_bytes,
                       const void* argument)
    : kernel_(std::move(kernel)),
      grid_{grid[0], grid[1], grid[2]},
      shared_bytes_(shared_bytes),
      argument_((kernel_->argument_bytes + 7) / 8),
      suspect_("kernel " + kernel_->name) {
  memcpy(argument_.data(), argument, kernel_->argument_bytes);
}

void LaunchWork::run(Device& device) const {
  Runtime& known = runtime();
  const unsigned long number = ++known.launches;
  const unsigned long lost_at = known.settings.lost_at_launch;
  if (lost_at != 0 && number >= lost_at) {
    device.fail(kLaunchFailure,
                "the device was lost at launch " + std::to_string(number) + ", as ROCMFORGE_EMULATOR_FAIL asks");
    return;
  }
  if (kernel_->module->unloaded) {
    device.fail(kIllegalAddress, "kernel " + kernel_->name + " was launched after its module had been unloaded");
    return;
  }
  const GridFailure failure =
      known.grids().run({kernel_.get(), {grid_[0], grid_[1], grid_[2]}, shared_bytes_, argument_.data()});
  if (failure.status != kSuccess) device.fail(failure.status, failure.message);
  device.check_memory(kCheckedAllocations, suspect_.c_str());
}

void GraphWork::run(Device& device) const {
  const Settings& settings = runtime().settings;
  unsigned long launch = 0;
  bool is_stale = false;
  for (const std::shared_ptr<const Work>& work : graph_->work) {
    if (device.fault != kSuccess) break;
    if (dynamic_cast<const LaunchWork*>(work.get()) != nullptr) launch++;
    if (settings.replay_fault == ReplayFault::skip && launch == settings.replay_fault_launch) continue;
    if (settings.replay_fault == ReplayFault::stale && launch == settings.replay_fault_launch && !is_stale) {
      is_stale = true;
      touch_memory(device, "a stale replay", [&device] { device.exchange_remembered(); });
    }
    work->run(device);
  }
  if (is_stale) touch_memory(device, "a stale replay", [&device] { device.exchange_remembered(); });
}

}  // namespace emulator
