// Paths that come from outside: from a hub's listing, a manifest or a user. Invariant: a path that passes leads to a
// place below the folder it is joined to, on every operating system.

const MAX_SEGMENT_CHARACTERS = 200;
const MAX_SEGMENTS = 16;
/** Separators, drive letters and streams of Windows, and characters that a terminal would execute. */
// oxlint-disable-next-line eslint/no-control-regex
const FORBIDDEN = /[\\:*?"<>|\u0000-\u001f\u007f]/;
/** Names that Windows reserves for devices, with any extension. */
const DEVICE = /^(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)/i;

/** Whether a relative path with forward slashes stays below its folder and can be a file's name everywhere. */
export function isSafePath(path: string): boolean {
  const segments = path.split("/");
  return segments.length <= MAX_SEGMENTS && segments.every(isSafeSegment);
}

function isSafeSegment(segment: string): boolean {
  return (
    segment !== "" &&
    segment.length <= MAX_SEGMENT_CHARACTERS &&
    !/^\.+$/.test(segment) &&
    // Windows drops them, so that two names would be one file.
    !/[. ]$/.test(segment) &&
    !FORBIDDEN.test(segment) &&
    !DEVICE.test(segment)
  );
}
