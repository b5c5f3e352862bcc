// Finished jobs lie in a list of ours; the thread-safe function only says that there is something in it, so nothing is
// lost or leaked when Node drops a call at the end of an environment.

#include "mailbox.h"

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "js-error.h"

namespace rocmforge {

AsyncJob::AsyncJob(Napi::Env env, std::shared_ptr<Mailbox> mailbox) : mailbox_(std::move(mailbox)), deferred_(env) {}

void AsyncJob::run() noexcept {
  if (!mailbox_->begin(this)) return;
  try {
    compute();
  } catch (EngineError& error) {
    error_ = std::move(error);
  } catch (const std::bad_alloc&) {
    error_ = memory_error("step", 0);
  } catch (const std::exception& error) {
    error_ = {ErrorCode::invalid, std::string("step: ") + error.what(), 0};
  }
  mailbox_->deliver(shared_from_this());
}

void AsyncJob::settle(Napi::Env env) {
  try {
    if (error_.code != ErrorCode::none) {
      deferred_.Reject(js_error(env, error_).Value());
      return;
    }
    Napi::Value value;
    try {
      value = guarded(env, [&] { return result(env); });
    } catch (const Napi::Error& error) {
      deferred_.Reject(error.Value());
      return;
    }
    deferred_.Resolve(value);
  } catch (...) {
    // The environment is ending and runs no more JavaScript.
  }
}

std::shared_ptr<Mailbox> Mailbox::create(Napi::Env env) {
  std::shared_ptr<Mailbox> mailbox = std::make_shared<Mailbox>();
  const Napi::String name = Napi::String::New(env, "rocmforge step");
  napi_status status = napi_create_threadsafe_function(env, nullptr, nullptr, name, 0, 1, nullptr, nullptr,
                                                       mailbox.get(), &Mailbox::on_call, &mailbox->call_);
  if (status == napi_ok) status = napi_unref_threadsafe_function(env, mailbox->call_);
  auto* const holder = new std::shared_ptr<Mailbox>(mailbox);
  if (status == napi_ok) status = napi_add_env_cleanup_hook(env, &Mailbox::on_environment_end, holder);
  if (status != napi_ok)
    throw EngineError{ErrorCode::memory, "addon: the environment cannot be called from other threads", 0};
  return mailbox;
}

void Mailbox::post(Napi::Env env, const std::shared_ptr<AsyncJob>& job) {
  StepQueue::instance().push(job);
  if (pending_++ == 0) napi_ref_threadsafe_function(env, call_);
}

bool Mailbox::begin(AsyncJob* job) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (open_) running_ = job;
  return open_;
}

void Mailbox::deliver(std::shared_ptr<AsyncJob> job) {
  std::lock_guard<std::mutex> lock(mutex_);
  running_ = nullptr;
  ended_.notify_all();
  if (!open_) return;
  finished_.push_back(std::move(job));
  napi_call_threadsafe_function(call_, nullptr, napi_tsfn_nonblocking);
}

void Mailbox::collect(Napi::Env env) {
  std::deque<std::shared_ptr<AsyncJob>> finished;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    finished.swap(finished_);
  }
  for (const std::shared_ptr<AsyncJob>& job : finished) {
    const Napi::HandleScope scope(env);
    job->settle(env);
    if (--pending_ == 0) napi_unref_threadsafe_function(env, call_);
  }
}

void Mailbox::close() {
  std::unique_lock<std::mutex> lock(mutex_);
  open_ = false;
  finished_.clear();
  if (running_ != nullptr) running_->cancel();
  while (running_ != nullptr) ended_.wait(lock);
}

void Mailbox::on_call(napi_env env, napi_value, void* context, void*) {
  if (env != nullptr) static_cast<Mailbox*>(context)->collect(env);
}

void Mailbox::on_environment_end(void* holder) {
  auto* const mailbox = static_cast<std::shared_ptr<Mailbox>*>(holder);
  (*mailbox)->close();
  delete mailbox;
}

}  // namespace rocmforge
