// A step on its way through the runner. It holds a share of everything it uses, so all of that may be disposed
// meanwhile.

#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "../engine/bound-weights.h"
#include "../engine/executor.h"
#include "../engine/kv-cache.h"
#include "../engine/step.h"
#include "mailbox.h"

namespace rocmforge {

class StepJob : public AsyncJob {
 public:
  StepJob(Napi::Env env, std::shared_ptr<Mailbox> mailbox, std::shared_ptr<Executor> executor,
          std::shared_ptr<BoundWeights> weights, std::shared_ptr<KvCache> cache, StepInput step)
      : AsyncJob(env, std::move(mailbox)),
        executor_(std::move(executor)),
        weights_(std::move(weights)),
        cache_(std::move(cache)),
        step_(std::move(step)) {}

 protected:
  void compute() override;
  Napi::Value result(Napi::Env env) override;

 private:
  std::shared_ptr<Executor> executor_;
  std::shared_ptr<BoundWeights> weights_;
  std::shared_ptr<KvCache> cache_;
  StepInput step_;
  std::vector<OutputRow> rows_;
};

/// A copy of KV blocks, in the queue of the steps. It has no result and needs no environment: it cannot fail, and it
/// holds a share of the cache.
class CopyJob : public Job {
 public:
  CopyJob(std::shared_ptr<KvCache> cache, std::vector<int32_t> pairs)
      : cache_(std::move(cache)), pairs_(std::move(pairs)) {}

  void run() noexcept override { cache_->copy_blocks(pairs_); }

 private:
  std::shared_ptr<KvCache> cache_;
  std::vector<int32_t> pairs_;
};

/// A copy of a cache's first blocks to one that replaces it; like CopyJob.
class GrowthJob : public Job {
 public:
  GrowthJob(std::shared_ptr<KvCache> cache, std::shared_ptr<KvCache> source, size_t blocks)
      : cache_(std::move(cache)), source_(std::move(source)), blocks_(blocks) {}

  void run() noexcept override { cache_->copy_from(*source_, blocks_); }

 private:
  std::shared_ptr<KvCache> cache_;
  std::shared_ptr<KvCache> source_;
  size_t blocks_;
};

class BandwidthJob : public AsyncJob {
 public:
  BandwidthJob(Napi::Env env, std::shared_ptr<Mailbox> mailbox, size_t size_bytes, size_t threads)
      : AsyncJob(env, std::move(mailbox)), size_bytes_(size_bytes), threads_(threads) {}

 protected:
  void compute() override;
  Napi::Value result(Napi::Env env) override { return Napi::Number::New(env, bytes_per_second_); }

 private:
  size_t size_bytes_;
  size_t threads_;
  double bytes_per_second_ = 0;
};

}  // namespace rocmforge
