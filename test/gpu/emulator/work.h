// What streams do and graphs write down: copies, fills, launches, events, whole graphs.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <vector>
#include "capture.h"
#include "module.h"
#include "stream.h"

namespace emulator {

class CopyWork : public Work {
 public:
  CopyWork(void* target, const void* source, size_t size_bytes, bool to_device = false)
      : target_(target), source_(source), size_bytes_(size_bytes), to_device_(to_device) {}
  void run(Device& device) const override;

 private:
  void* target_;
  const void* source_;
  size_t size_bytes_;
  bool to_device_;
};

class FillWork : public Work {
 public:
  FillWork(void* target, int byte, size_t size_bytes) : target_(target), byte_(byte), size_bytes_(size_bytes) {}
  void run(Device& device) const override;

 private:
  void* target_;
  int byte_;
  size_t size_bytes_;
};

class LaunchWork : public Work {
 public:
  /** Copies the argument: what the program does with its own afterwards does not matter. */
  LaunchWork(std::shared_ptr<const Kernel> kernel, const unsigned (&grid)[3], size_t shared_bytes,
             const void* argument);
  void run(Device& device) const override;

 private:
  std::shared_ptr<const Kernel> kernel_;
  unsigned grid_[3];
  size_t shared_bytes_;
  /** Of words, for their alignment. */
  std::vector<unsigned long long> argument_;
  /** Made once, not at every replay. */
  std::string suspect_;
};

class RecordWork : public Work {
 public:
  RecordWork(std::shared_ptr<Event> event, uint64_t record) : event_(std::move(event)), record_(record) {}
  void run(Device&) const override { event_->finish(record_); }
  bool must_run() const override { return true; }

 private:
  std::shared_ptr<Event> event_;
  uint64_t record_;
};

class WaitWork : public Work {
 public:
  WaitWork(std::shared_ptr<Event> event, uint64_t record) : event_(std::move(event)), record_(record) {}
  void run(Device&) const override { event_->wait(record_); }

 private:
  std::shared_ptr<Event> event_;
  uint64_t record_;
};

class GraphWork : public Work {
 public:
  explicit GraphWork(std::shared_ptr<const Graph> graph) : graph_(std::move(graph)) {}
  void run(Device& device) const override;

 private:
  std::shared_ptr<const Graph> graph_;
};

}  // namespace emulator
