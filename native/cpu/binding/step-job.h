// A step on its way through the runner. It holds a share of everything it uses, so all of that may be disposed
// meanwhile.

#pragma once

#include <cstdint>
#include <functional>
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

/// A copy of KV blocks, in the queue of the steps. It has no result and needs no environment: it cannot fail, and the
/// function holds a share of the caches.
class CopyJob : public Job {
 public:
  explicit CopyJob(std::function<void()> copy) : copy_(std::move(copy)) {}

  void run() noexcept override { copy_(); }

 private:
  std::function<void()> copy_;
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

class DotProductPeakJob : public AsyncJob {
 public:
  DotProductPeakJob(Napi::Env env, std::shared_ptr<Mailbox> mailbox, const MatmulKernels& kernels, size_t threads)
      : AsyncJob(env, std::move(mailbox)), kernels_(kernels), threads_(threads) {}

 protected:
  void compute() override;
  Napi::Value result(Napi::Env env) override { return Napi::Number::New(env, per_second_); }

 private:
  const MatmulKernels& kernels_;
  size_t threads_;
  double per_second_ = 0;
};

}  // namespace rocmforge
