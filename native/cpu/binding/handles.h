// The objects that JavaScript holds: regions, caches and programs. Those that it passes back carry a type tag, so that
// one passed for another (by a changed prototype, say) is refused. They have methods and plain properties only: a
// getter could be called on anything. An object whose inside is empty was disposed, or was not made by the addon.

#pragma once

#include <napi.h>

#include <memory>

#include "../engine/bound-weights.h"
#include "../engine/executor.h"
#include "../engine/kv-cache.h"
#include "../engine/region.h"
#include "mailbox.h"
#include "reader.h"

namespace rocmforge {

class RegionHandle : public Napi::ObjectWrap<RegionHandle> {
 public:
  static Napi::Function define(Napi::Env env);
  static Napi::Object create(Napi::Env env, std::shared_ptr<Region> region);
  static std::shared_ptr<Region> from(const Reader& reader);

  explicit RegionHandle(const Napi::CallbackInfo& info) : Napi::ObjectWrap<RegionHandle>(info) {}

 private:
  void dispose(const Napi::CallbackInfo& info);

  std::shared_ptr<Region> region_;
};

class KvCacheHandle : public Napi::ObjectWrap<KvCacheHandle> {
 public:
  static Napi::Function define(Napi::Env env);
  static Napi::Object create(Napi::Env env, std::shared_ptr<KvCache> cache);
  static std::shared_ptr<KvCache> from(const Reader& reader);

  explicit KvCacheHandle(const Napi::CallbackInfo& info) : Napi::ObjectWrap<KvCacheHandle>(info) {}

 private:
  Napi::Value copy_blocks(const Napi::CallbackInfo& info);
  Napi::Value copy_from(const Napi::CallbackInfo& info);
  void dispose(const Napi::CallbackInfo& info);

  std::shared_ptr<KvCache> cache_;
};

class ProgramHandle : public Napi::ObjectWrap<ProgramHandle> {
 public:
  static Napi::Function define(Napi::Env env);
  static Napi::Object create(Napi::Env env, std::shared_ptr<Executor> executor);

  explicit ProgramHandle(const Napi::CallbackInfo& info) : Napi::ObjectWrap<ProgramHandle>(info) {}

 private:
  Napi::Value bind(const Napi::CallbackInfo& info);
  Napi::Value scratch_bytes(const Napi::CallbackInfo& info);
  Napi::Value run(const Napi::CallbackInfo& info);
  Napi::Value profile(const Napi::CallbackInfo& info);
  void dispose(const Napi::CallbackInfo& info);
  Executor& executor() const;

  std::shared_ptr<Executor> executor_;
  std::shared_ptr<BoundWeights> weights_;
};

/// What one environment keeps: the classes' constructors and its mailbox.
struct AddonData {
  Napi::FunctionReference region;
  Napi::FunctionReference kv_cache;
  Napi::FunctionReference program;
  std::shared_ptr<Mailbox> mailbox;

  static AddonData& of(Napi::Env env) { return *env.GetInstanceData<AddonData>(); }
};

}  // namespace rocmforge
