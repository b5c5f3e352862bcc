// What JavaScript can do with the addon's objects.

#include "handles.h"

#include <utility>
#include <vector>

#include "../engine/error.h"
#include "js-error.h"
#include "spec-reader.h"
#include "step-job.h"

namespace rocmforge {

namespace {

constexpr napi_type_tag kRegionTag = {0x8f2b6a1c5d3e4f70, 0x9a41c7e2d8b35f01};
constexpr napi_type_tag kKvCacheTag = {0x8f2b6a1c5d3e4f70, 0x9a41c7e2d8b35f02};

template <typename Handle>
Handle* unwrap(const Reader& reader, const napi_type_tag& tag, const char* expected) {
  if (!reader.value().IsObject() || !reader.object().CheckTypeTag(&tag)) reader.refuse_found(expected);
  return Handle::Unwrap(reader.object());
}

void set_fixed(Napi::Object object, const char* name, Napi::Value value) {
  object.DefineProperty(Napi::PropertyDescriptor::Value(name, value, napi_enumerable));
}

Napi::Value external_buffer(Napi::Env env, const std::shared_ptr<Region>& region) {
  if (region->size_bytes() == 0) return Napi::ArrayBuffer::New(env, 0);
  auto* const share = new std::shared_ptr<Region>(region);
  try {
    return Napi::ArrayBuffer::New(
        env, region->buffer(), region->size_bytes(),
        [](Napi::Env, void*, std::shared_ptr<Region>* held) { delete held; }, share);
  } catch (...) {
    delete share;
    throw;
  }
}

}  // namespace

Napi::Function RegionHandle::define(Napi::Env env) {
  return DefineClass(env, "NativeRegion", {InstanceMethod<&RegionHandle::dispose>("dispose")});
}

Napi::Object RegionHandle::create(Napi::Env env, std::shared_ptr<Region> region) {
  Napi::Object object = AddonData::of(env).region.New({});
  set_fixed(object, "sizeBytes", Napi::Number::New(env, static_cast<double>(region->size_bytes())));
  set_fixed(object, "buffer", region->owned() ? external_buffer(env, region) : env.Undefined());
  object.TypeTag(&kRegionTag);
  Unwrap(object)->region_ = std::move(region);
  return object;
}

std::shared_ptr<Region> RegionHandle::from(const Reader& reader) {
  RegionHandle* const handle = unwrap<RegionHandle>(reader, kRegionTag, "a region of this addon");
  if (handle->region_ == nullptr) refuse(reader.where(), "a region in use", "one that was disposed");
  return handle->region_;
}

void RegionHandle::dispose(const Napi::CallbackInfo&) {
  // The bytes of our own buffer stay good for steps under way; a mapping may be gone right after this.
  if (region_ != nullptr && !region_->owned()) region_->close();
  region_.reset();
}

Napi::Function KvCacheHandle::define(Napi::Env env) {
  return DefineClass(
      env, "NativeKvCache",
      {InstanceMethod<&KvCacheHandle::copy_blocks>("copyBlocks"), InstanceMethod<&KvCacheHandle::copy_from>("copyFrom"),
       InstanceMethod<&KvCacheHandle::dispose>("dispose")});
}

Napi::Object KvCacheHandle::create(Napi::Env env, std::shared_ptr<KvCache> cache) {
  Napi::Object object = AddonData::of(env).kv_cache.New({});
  set_fixed(object, "sizeBytes", Napi::Number::New(env, static_cast<double>(cache->size_bytes())));
  object.TypeTag(&kKvCacheTag);
  Unwrap(object)->cache_ = std::move(cache);
  return object;
}

std::shared_ptr<KvCache> KvCacheHandle::from(const Reader& reader) {
  KvCacheHandle* const handle = unwrap<KvCacheHandle>(reader, kKvCacheTag, "a KV cache of this addon");
  if (handle->cache_ == nullptr) refuse(reader.where(), "a KV cache in use", "one that was disposed");
  return handle->cache_;
}

Napi::Value KvCacheHandle::copy_blocks(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] {
    const std::shared_ptr<KvCache> cache = cache_;
    if (cache == nullptr) refuse("kvCache", "a KV cache in use", "one that was disposed");
    std::vector<int32_t> pairs = Reader(info[0], "pairs").int32s();
    const size_t group = Reader(info[1], "group").count(kMaxWhole);
    cache->check_copies(pairs, group);
    if (!pairs.empty()) {
      StepQueue::instance().push(
          std::make_shared<CopyJob>([cache, group, pairs = std::move(pairs)] { cache->copy_blocks(pairs, group); }));
    }
    return info.Env().Undefined();
  });
}

Napi::Value KvCacheHandle::copy_from(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] {
    const std::shared_ptr<KvCache> cache = cache_;
    if (cache == nullptr) refuse("kvCache", "a KV cache in use", "one that was disposed");
    const std::shared_ptr<KvCache> source = from(Reader(info[0], "source"));
    std::vector<int32_t> blocks = Reader(info[1], "blocks").int32s();
    cache->check_copy_from(*source, blocks);
    StepQueue::instance().push(
        std::make_shared<CopyJob>([cache, source, blocks = std::move(blocks)] { cache->copy_from(*source, blocks); }));
    return info.Env().Undefined();
  });
}

void KvCacheHandle::dispose(const Napi::CallbackInfo&) { cache_.reset(); }

Napi::Function ProgramHandle::define(Napi::Env env) {
  return DefineClass(
      env, "NativeProgram",
      {InstanceMethod<&ProgramHandle::bind>("bind"), InstanceMethod<&ProgramHandle::scratch_bytes>("scratchBytes"),
       InstanceMethod<&ProgramHandle::run>("run"), InstanceMethod<&ProgramHandle::profile>("profile"),
       InstanceMethod<&ProgramHandle::dispose>("dispose")});
}

Napi::Object ProgramHandle::create(Napi::Env env, std::shared_ptr<Executor> executor) {
  Napi::Object object = AddonData::of(env).program.New({});
  Unwrap(object)->executor_ = std::move(executor);
  return object;
}

Executor& ProgramHandle::executor() const {
  if (executor_ == nullptr) refuse("program", "a program in use", "one that was disposed");
  return *executor_;
}

Napi::Value ProgramHandle::bind(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] {
    // Reading may run JavaScript that disposes this program: hold on to it.
    const std::shared_ptr<Executor> held = executor_;
    const Program& program = executor().program();
    std::vector<WeightLocation> locations;
    for (const Reader& entry : Reader(info[0], "weights").entries(program.weights.size())) {
      locations.push_back({RegionHandle::from(entry.field("region")), entry.field("byteOffset").count(kMaxWhole),
                           entry.field("sizeBytes").count(kMaxWhole)});
    }
    weights_ = std::make_shared<BoundWeights>(program, locations);
    return info.Env().Undefined();
  });
}

Napi::Value ProgramHandle::scratch_bytes(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    const Program& program = executor().program();
    const size_t tokens = Reader(info[0], "tokens").count(program.max_tokens);
    const size_t outputs = Reader(info[1], "outputs").count(program.max_outputs);
    const size_t scored = Reader(info[2], "scored").count(program.max_outputs);
    return Napi::Number::New(info.Env(), static_cast<double>(executor().scratch_bytes(tokens, outputs, scored)));
  });
}

Napi::Value ProgramHandle::run(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&]() -> Napi::Value {
    const std::shared_ptr<Executor> held = executor_;
    const Program& program = executor().program();
    StepInput step = read_step(Reader(info[0], "step"), program);
    const Reader cache_argument(info[1], "kvCache");
    const std::shared_ptr<KvCache> cache =
        cache_argument.is_undefined() ? nullptr : KvCacheHandle::from(cache_argument);
    const std::shared_ptr<BoundWeights> weights = weights_;
    if (weights == nullptr) refuse("program", "bound weights", "none");
    if (weights->closed()) refuse("program", "regions in use", "one that was disposed");
    check_step(program, cache.get(), step);
    AddonData& data = AddonData::of(env);
    const auto job = std::make_shared<StepJob>(env, data.mailbox, held, weights, cache, std::move(step));
    Napi::Object handle = Napi::Object::New(env);
    handle.Set("result", job->promise());
    const std::weak_ptr<StepJob> weak = job;
    handle.Set("cancel", Napi::Function::New(env, [weak](const Napi::CallbackInfo&) {
                 if (const std::shared_ptr<StepJob> running = weak.lock()) running->cancel();
               }));
    data.mailbox->post(env, job);
    return handle;
  });
}

Napi::Value ProgramHandle::profile(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&]() -> Napi::Value {
    Napi::Array entries = Napi::Array::New(env);
    for (const ProfileEntry& entry : executor().profile()) {
      Napi::Object object = Napi::Object::New(env);
      object.Set("kind", entry.kind);
      object.Set("calls", static_cast<double>(entry.calls));
      object.Set("milliseconds", entry.milliseconds);
      entries.Set(entries.Length(), object);
    }
    return entries;
  });
}

void ProgramHandle::dispose(const Napi::CallbackInfo&) {
  executor_.reset();
  weights_.reset();
}

}  // namespace rocmforge
