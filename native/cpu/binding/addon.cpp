// The module's entry: what index.d.ts calls NativeAddon.

#include <napi.h>

#include <memory>
#include <vector>

#include "../engine/error.h"
#include "../engine/isa.h"
#include "../engine/placement.h"
#include "handles.h"
#include "js-error.h"
#include "spec-reader.h"
#include "step-job.h"

namespace rocmforge {

namespace {

/// Raised with every change of index.d.ts that the TypeScript side could notice.
constexpr int kBindingsVersion = 9;
constexpr size_t kMaxThreads = 1024;
constexpr size_t kMaxProcessors = 8192;

Napi::Value map_region(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    const uint64_t address = Reader(info[0], "address").address();
    return RegionHandle::create(info.Env(), Region::map(address, Reader(info[1], "sizeBytes").count(kMaxWhole)));
  });
}

Napi::Value allocate_region(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    return RegionHandle::create(info.Env(), Region::allocate(Reader(info[0], "sizeBytes").count(kMaxWhole)));
  });
}

Napi::Value create_kv_cache(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    return KvCacheHandle::create(info.Env(), std::make_shared<KvCache>(read_kv_options(Reader(info[0], "kvCache"))));
  });
}

Napi::Value kv_cache_bytes(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    return Napi::Number::New(info.Env(),
                             static_cast<double>(KvCache::size_bytes(read_kv_options(Reader(info[0], "kvCache")))));
  });
}

Napi::Value compile(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    return ProgramHandle::create(info.Env(), std::make_shared<Executor>(read_program(Reader(info[0], "program"))));
  });
}

Napi::Value measure_bandwidth(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&]() -> Napi::Value {
    const size_t size_bytes =
        static_cast<size_t>(Reader(info[0], "sizeBytes").whole(1, static_cast<int64_t>(kMaxWhole)));
    const size_t threads = static_cast<size_t>(Reader(info[1], "threads").whole(1, kMaxThreads));
    AddonData& data = AddonData::of(env);
    const auto job = std::make_shared<BandwidthJob>(env, data.mailbox, size_bytes, threads);
    const Napi::Promise promise = job->promise();
    data.mailbox->post(env, job);
    return promise;
  });
}

Napi::Value measure_peak(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&]() -> Napi::Value {
    const std::string isa = Reader(info[0], "isa").string();
    const KernelTable* const table = find_kernel_table(isa);
    if (table == nullptr) refuse("isa", "an instruction set of this machine", isa);
    const size_t threads = static_cast<size_t>(Reader(info[1], "threads").whole(1, kMaxThreads));
    AddonData& data = AddonData::of(env);
    const auto job = std::make_shared<DotProductPeakJob>(env, data.mailbox, *table->matmul, threads);
    const Napi::Promise promise = job->promise();
    data.mailbox->post(env, job);
    return promise;
  });
}

Napi::Value confine(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    std::vector<size_t> processors;
    for (const Reader& entry : Reader(info[0], "processors").entries(kMaxProcessors))
      processors.push_back(entry.count(kMaxProcessors));
    confine_threads(processors);
    return info.Env().Undefined();
  });
}

Napi::Object initialise(Napi::Env env, Napi::Object exports) {
  return guarded(env, [&] {
    auto data = std::make_unique<AddonData>();
    data->region = Napi::Persistent(RegionHandle::define(env));
    data->kv_cache = Napi::Persistent(KvCacheHandle::define(env));
    data->program = Napi::Persistent(ProgramHandle::define(env));
    data->mailbox = Mailbox::create(env);
    env.SetInstanceData(data.release());

    Napi::Array isas = Napi::Array::New(env);
    for (const KernelTable& table : kernel_tables()) isas.Set(isas.Length(), table.name);
    exports.Set("bindingsVersion", kBindingsVersion);
    exports.Set("isas", isas);
    exports.Set("mapRegion", Napi::Function::New<map_region>(env, "mapRegion"));
    exports.Set("allocateRegion", Napi::Function::New<allocate_region>(env, "allocateRegion"));
    exports.Set("createKvCache", Napi::Function::New<create_kv_cache>(env, "createKvCache"));
    exports.Set("kvCacheBytes", Napi::Function::New<kv_cache_bytes>(env, "kvCacheBytes"));
    exports.Set("compile", Napi::Function::New<compile>(env, "compile"));
    exports.Set("confineThreads", Napi::Function::New<confine>(env, "confineThreads"));
    exports.Set("measureReadBandwidth", Napi::Function::New<measure_bandwidth>(env, "measureReadBandwidth"));
    exports.Set("measureDotProductPeak", Napi::Function::New<measure_peak>(env, "measureDotProductPeak"));
    return exports;
  });
}

}  // namespace

}  // namespace rocmforge

static Napi::Object initialise_module(Napi::Env env, Napi::Object exports) {
  return rocmforge::initialise(env, exports);
}

NODE_API_MODULE(rocmforge_cpu, initialise_module)
