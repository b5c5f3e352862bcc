// The way back from the runner's thread to one JavaScript environment (the main thread, or a worker). Jobs under way
// keep that environment's event loop alive; an idle addon does not. When the environment ends, its job that is running
// is cancelled and waited for, because the files that it reads from go away with the environment.

#pragma once

#include <napi.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>

#include "../engine/error.h"
#include "../engine/step-queue.h"

namespace rocmforge {

class Mailbox;

/// Work for the runner whose result is a promise.
class AsyncJob : public Job, public std::enable_shared_from_this<AsyncJob> {
 public:
  AsyncJob(Napi::Env env, std::shared_ptr<Mailbox> mailbox);

  Napi::Promise promise() const { return deferred_.Promise(); }
  void cancel() { cancelled_.store(true, std::memory_order_release); }

  void run() noexcept final;
  /// On the JavaScript thread.
  void settle(Napi::Env env);

 protected:
  /// On the runner's thread; may throw EngineError.
  virtual void compute() = 0;
  virtual Napi::Value result(Napi::Env env) = 0;
  const std::atomic<bool>& cancelled() const { return cancelled_; }

 private:
  std::shared_ptr<Mailbox> mailbox_;
  Napi::Promise::Deferred deferred_;
  std::atomic<bool> cancelled_{false};
  EngineError error_;
};

class Mailbox {
 public:
  static std::shared_ptr<Mailbox> create(Napi::Env env);

  /// On the JavaScript thread: queues the job.
  void post(Napi::Env env, const std::shared_ptr<AsyncJob>& job);

 private:
  friend class AsyncJob;

  /// False when the environment is gone: the job must not start.
  bool begin(AsyncJob* job);
  void deliver(std::shared_ptr<AsyncJob> job);
  void collect(Napi::Env env);
  void close();
  static void on_call(napi_env env, napi_value callback, void* context, void* data);
  static void on_environment_end(void* holder);

  std::mutex mutex_;
  std::condition_variable ended_;
  bool open_ = true;
  AsyncJob* running_ = nullptr;
  std::deque<std::shared_ptr<AsyncJob>> finished_;
  napi_threadsafe_function call_ = nullptr;
  /// Jobs that JavaScript waits for; on its thread only.
  size_t pending_ = 0;
};

}  // namespace rocmforge
