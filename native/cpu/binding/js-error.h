// The engine's errors as JavaScript's, with the codes of index.d.ts. Every function that JavaScript calls runs inside
// `guarded`.

#pragma once

#include <napi.h>

#include <exception>
#include <new>

#include "../engine/error.h"

namespace rocmforge {

inline Napi::Error js_error(Napi::Env env, const EngineError& error) {
  Napi::Error made = Napi::Error::New(env, error.message);
  made.Set("code", Napi::String::New(env, error_code_name(error.code)));
  if (error.code == ErrorCode::memory && error.needed_bytes > 0) {
    made.Set("neededBytes", Napi::Number::New(env, error.needed_bytes));
  }
  return made;
}

template <typename Call>
auto guarded(Napi::Env env, Call&& call) -> decltype(call()) {
  try {
    return call();
  } catch (const EngineError& error) {
    throw js_error(env, error);
  } catch (const Napi::Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw js_error(env, memory_error("addon", 0));
  } catch (const std::exception& error) {
    throw js_error(env, {ErrorCode::invalid, error.what(), 0});
  }
}

}  // namespace rocmforge
