// HIP's functions about streams, events, capture and graphs.
#include "runtime.h"
#include "work.h"

using namespace emulator;

namespace {

constexpr unsigned kEventDisableTiming = 2;

/** A body that wants a live stream; `handle` null is the device's own. */
template <typename Body>
int stream_call(const char* name, void* handle, Body body) {
  return hip_call(name, Needs::device, [&](Runtime& known) -> Status {
    const std::shared_ptr<Stream> stream = known.stream(handle);
    return stream == nullptr ? kInvalidHandle : body(known, stream);
  });
}

template <typename Body>
int event_call(const char* name, void* handle, Body body) {
  return hip_call(name, Needs::device, [&](Runtime& known) -> Status {
    const std::shared_ptr<Event> event = known.events.find(handle);
    return event == nullptr ? kInvalidHandle : body(known, event);
  });
}

}  // namespace

EMULATOR_EXPORT int hipStreamCreateWithFlags(void** stream, unsigned) {
  return hip_call("hipStreamCreateWithFlags", Needs::device, [&](Runtime& known) -> Status {
    Device& device = known.current_device();
    if (stream == nullptr) return kInvalidValue;
    if (device.fault != kSuccess) return device.fault;
    *stream = known.streams.add(std::make_shared<Stream>(device));
    return kSuccess;
  });
}

EMULATOR_EXPORT int hipStreamDestroy(void* handle) {
  return hip_call("hipStreamDestroy", Needs::device, [&](Runtime& known) -> Status {
    const std::shared_ptr<Stream> stream = known.streams.take(handle);
    if (stream == nullptr) return kInvalidHandle;
    {
      const std::lock_guard<std::mutex> lock(known.capture_mutex);
      if (stream->capture != nullptr) abandon_capture(known, stream->capture);
    }
    stream->drain();
    return stream->device.fault;
  });
}

EMULATOR_EXPORT int hipStreamSynchronize(void* handle) {
  return stream_call("hipStreamSynchronize", handle,
                     [&](Runtime& known, const std::shared_ptr<Stream>& stream) -> Status {
                       if (const Status status = refuse_while_capturing(known, *stream)) return status;
                       stream->drain();
                       return stream->device.outcome();
                     });
}

EMULATOR_EXPORT int hipStreamWaitEvent(void* handle, void* event_handle, unsigned) {
  return stream_call("hipStreamWaitEvent", handle,
                     [&](Runtime& known, const std::shared_ptr<Stream>& stream) -> Status {
                       const std::shared_ptr<Event> event = known.events.find(event_handle);
                       return event == nullptr ? kInvalidHandle : wait_for_event(known, stream, event);
                     });
}

EMULATOR_EXPORT int hipDeviceSynchronize() {
  return hip_call("hipDeviceSynchronize", Needs::device, [&](Runtime& known) -> Status {
    Device& device = known.current_device();
    if (const Status status = refuse_while_device_captures(known, device)) return status;
    known.synchronize(device);
    return device.outcome();
  });
}

EMULATOR_EXPORT int hipEventCreateWithFlags(void** event, unsigned flags) {
  return hip_call("hipEventCreateWithFlags", Needs::device, [&](Runtime& known) -> Status {
    Device& device = known.current_device();
    if (event == nullptr) return kInvalidValue;
    if (device.fault != kSuccess) return device.fault;
    *event = known.events.add(std::make_shared<Event>(device, (flags & kEventDisableTiming) == 0));
    return kSuccess;
  });
}

EMULATOR_EXPORT int hipEventDestroy(void* handle) {
  return hip_call("hipEventDestroy", Needs::device, [&](Runtime& known) -> Status {
    const std::shared_ptr<Event> event = known.events.take(handle);
    return event == nullptr ? kInvalidHandle : event->device.fault.load();
  });
}

EMULATOR_EXPORT int hipEventRecord(void* handle, void* stream_handle) {
  return event_call("hipEventRecord", handle, [&](Runtime& known, const std::shared_ptr<Event>& event) -> Status {
    const std::shared_ptr<Stream> stream = known.stream(stream_handle);
    if (stream == nullptr || &stream->device != &event->device) return kInvalidHandle;
    return record_event(known, event, *stream);
  });
}

EMULATOR_EXPORT int hipEventQuery(void* handle) {
  return event_call("hipEventQuery", handle, [&](Runtime& known, const std::shared_ptr<Event>& event) -> Status {
    if (const Status status = refuse_captured_event(known, *event)) return status;
    if (event->device.fault != kSuccess) return event->device.fault;
    return event->is_done(event->last_record()) ? event->device.outcome() : kNotReady;
  });
}

EMULATOR_EXPORT int hipEventSynchronize(void* handle) {
  return event_call("hipEventSynchronize", handle, [&](Runtime& known, const std::shared_ptr<Event>& event) -> Status {
    if (const Status status = refuse_captured_event(known, *event)) return status;
    event->wait(event->last_record());
    return event->device.outcome();
  });
}

EMULATOR_EXPORT int hipEventElapsedTime(float* milliseconds, void* start_handle, void* end_handle) {
  return event_call("hipEventElapsedTime", start_handle,
                    [&](Runtime& known, const std::shared_ptr<Event>& start) -> Status {
                      const std::shared_ptr<Event> end = known.events.find(end_handle);
                      if (milliseconds == nullptr) return kInvalidValue;
                      if (end == nullptr || !start->timed || !end->timed) return kInvalidHandle;
                      if (start->last_record() == 0 || end->last_record() == 0) return kInvalidHandle;
                      if (start->device.fault != kSuccess) return start->device.fault;
                      if (!start->is_done(start->last_record()) || !end->is_done(end->last_record())) return kNotReady;
                      *milliseconds = std::chrono::duration<float, std::milli>(end->time() - start->time()).count();
                      return kSuccess;
                    });
}

EMULATOR_EXPORT int hipStreamBeginCapture(void* handle, int mode) {
  return stream_call("hipStreamBeginCapture", handle,
                     [&](Runtime& known, const std::shared_ptr<Stream>& stream) -> Status {
                       if (handle == nullptr) return kStreamCaptureUnsupported;
                       if (stream->device.fault != kSuccess) return stream->device.fault;
                       return begin_capture(known, stream, mode);
                     });
}

EMULATOR_EXPORT int hipStreamEndCapture(void* handle, void** graph_handle) {
  return stream_call("hipStreamEndCapture", handle,
                     [&](Runtime& known, const std::shared_ptr<Stream>& stream) -> Status {
                       if (graph_handle == nullptr) return kInvalidValue;
                       *graph_handle = nullptr;
                       std::shared_ptr<Graph> graph;
                       if (const Status status = end_capture(known, stream, &graph)) return status;
                       *graph_handle = known.recordings.add(graph);
                       return stream->device.fault;
                     });
}

EMULATOR_EXPORT int hipStreamIsCapturing(void* handle, int* status) {
  return stream_call("hipStreamIsCapturing", handle,
                     [&](Runtime& known, const std::shared_ptr<Stream>& stream) -> Status {
                       if (status == nullptr) return kInvalidValue;
                       *status = capture_status(known, *stream);
                       return kSuccess;
                     });
}

EMULATOR_EXPORT int hipGraphInstantiate(void** executable, void* graph_handle, void** error_node, char* log,
                                        size_t log_bytes) {
  return hip_call("hipGraphInstantiate", Needs::device, [&](Runtime& known) -> Status {
    if (executable == nullptr) return kInvalidValue;
    *executable = nullptr;
    if (error_node != nullptr) *error_node = nullptr;
    if (log != nullptr && log_bytes > 0) log[0] = '\0';
    const std::shared_ptr<Graph> recording = known.recordings.find(graph_handle);
    if (recording == nullptr) return kInvalidValue;
    if (known.current_device().fault != kSuccess) return known.current_device().fault;
    *executable = known.graphs.add(std::make_shared<Graph>(*recording));
    return kSuccess;
  });
}

EMULATOR_EXPORT int hipGraphLaunch(void* executable, void* stream_handle) {
  return stream_call(
      "hipGraphLaunch", stream_handle, [&](Runtime& known, const std::shared_ptr<Stream>& stream) -> Status {
        const std::shared_ptr<Graph> graph = known.graphs.find(executable);
        return graph == nullptr ? kInvalidValue : submit(known, *stream, std::make_shared<GraphWork>(graph));
      });
}

EMULATOR_EXPORT int hipGraphExecDestroy(void* executable) {
  return hip_call("hipGraphExecDestroy", Needs::device, [&](Runtime& known) -> Status {
    return known.graphs.take(executable) == nullptr ? kInvalidValue : known.current_device().fault.load();
  });
}

EMULATOR_EXPORT int hipGraphDestroy(void* graph) {
  return hip_call("hipGraphDestroy", Needs::device, [&](Runtime& known) -> Status {
    return known.recordings.take(graph) == nullptr ? kInvalidValue : known.current_device().fault.load();
  });
}
