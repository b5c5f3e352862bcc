// Explains the operating system's errors: the reason in words and what to do. One table, so that no message consists of
// a bare EMFILE, and a full disk is not reported as a bug of this package.

import { FileError, RocmForgeError, SystemError } from "./errors.js";

/** An error of the operating system, explained. */
interface SystemFailure {
  /** The system's name for the error, such as `EMFILE`. */
  readonly number: string;
  readonly reason: string;
  /** What to do about it; empty if only the caller can know. */
  readonly remedy: string;
}

interface Words {
  readonly reason: string;
  readonly remedy: string;
  /** Whether a resource of the machine is exhausted, whatever the call was about. */
  readonly isLimit?: true;
}

const NETWORK_FILE = "open the file again, or copy it to a local disk";

const WORDS: Readonly<Record<string, Words>> = {
  ENOENT: { reason: "no such file", remedy: "check the path" },
  ENOTDIR: { reason: "no such file, because a part of the path is not a folder", remedy: "check the path" },
  EISDIR: { reason: "it is a folder", remedy: "name a file" },
  EACCES: { reason: "permission denied", remedy: "check the permissions of the file and of the folders above it" },
  EPERM: { reason: "not permitted", remedy: "check the permissions of the file and of the folders above it" },
  ELOOP: { reason: "its symbolic links form a loop", remedy: "check where they point (`readlink`)" },
  ENAMETOOLONG: { reason: "the name is too long for this file system", remedy: "shorten it" },
  ENXIO: { reason: "the device or pipe behind it does not exist", remedy: "name a file" },
  ENODEV: { reason: "the device behind it does not exist", remedy: "name a file" },
  EBUSY: { reason: "another program uses it", remedy: "try again when that has ended" },
  ETXTBSY: { reason: "a running program uses it", remedy: "try again when that has ended" },
  EROFS: { reason: "the file system is read-only", remedy: "choose another folder" },
  ENOSPC: { reason: "the disk is full", remedy: "free some space or choose another folder" },
  EDQUOT: { reason: "the disk quota is used up", remedy: "free some space or choose another folder" },
  EFBIG: { reason: "the file is too large for this file system", remedy: "choose another folder" },
  EIO: { reason: "the disk reported an error", remedy: "check the disk (`dmesg`) and use another copy of the file" },
  ESTALE: { reason: "the network file system lost the file", remedy: NETWORK_FILE },
  ETIMEDOUT: { reason: "the network file system does not answer", remedy: NETWORK_FILE },
  EMFILE: {
    reason: "too many open files in this process",
    remedy: "raise the limit (`ulimit -n 4096` in the shell, LimitNOFILE= in a systemd unit) or close some of them",
    isLimit: true,
  },
  ENFILE: {
    reason: "too many open files on this machine",
    remedy: "close programs with many open files, or raise fs.file-max",
    isLimit: true,
  },
  ENOMEM: {
    reason: "out of memory",
    remedy: "close other programs, or use a smaller model",
    isLimit: true,
  },
  EAGAIN: {
    reason: "the system cannot start more threads or processes",
    remedy: "close some, or raise the limit (`ulimit -u`)",
    isLimit: true,
  },
};

/** Explains an error of the operating system; undefined for any other error. */
export function systemFailure(error: unknown): SystemFailure | undefined {
  const number = systemNumber(error);
  if (number === undefined) return undefined;
  const { reason, remedy } = WORDS[number] ?? { reason: error instanceof Error ? error.message : number, remedy: "" };
  return { number, reason, remedy };
}

/** `no such file (ENOENT); check the path`, or the error's own message if it is not a system error. */
export function systemFailureText(error: unknown): string {
  const failure = systemFailure(error);
  if (failure === undefined) return error instanceof Error ? error.message : String(error);
  const { number, reason, remedy } = failure;
  return `${reason}${reason.includes(number) ? "" : ` (${number})`}${remedy === "" ? "" : `; ${remedy}`}`;
}

/** A SystemError if a limit of the machine was reached, in whichever call; undefined for everything else. */
export function limitReached(place: string, error: unknown): SystemError | undefined {
  const number = systemNumber(error);
  if (number === undefined || WORDS[number]?.isLimit !== true) return undefined;
  return new SystemError("SYSTEM_LIMIT", `[${place}] ${systemFailureText(error)}`, {
    details: { reason: number, ...pathOf(error) },
    cause: error,
  });
}

/**
 * Converts an error of the operating system that no other part has explained into one of this package's errors; used
 * where errors leave the library.
 */
export function typedError(place: string, error: unknown): unknown {
  const number = error instanceof RocmForgeError ? undefined : systemNumber(error);
  if (number === undefined) return error;
  const { path } = pathOf(error);
  const subject = path === undefined ? "" : `${path}: `;
  return (
    limitReached(place, error) ??
    new FileError(
      number === "ENOENT" ? "FILE_NOT_FOUND" : "FILE_UNREADABLE",
      `[${place}] ${subject}${systemFailureText(error)}`,
      {
        details: { reason: number, ...(path === undefined ? {} : { path }) },
        cause: error,
      },
    )
  );
}

function pathOf(error: unknown): { readonly path?: string } {
  const path = error instanceof Error && "path" in error ? error.path : undefined;
  return typeof path === "string" ? { path } : {};
}

/** The system's name of an error; Node's own errors have codes too, such as `ERR_INVALID_ARG_TYPE`. */
function systemNumber(error: unknown): string | undefined {
  if (!(error instanceof Error) || !("code" in error) || typeof error.code !== "string") return undefined;
  // If a thread cannot be started, only the message contains the system's reason.
  if (error.code === "ERR_WORKER_INIT_FAILED")
    return /\b(?<number>E[A-Z]+)\b(?!_)/.exec(error.message.replace(error.code, ""))?.groups?.["number"];
  return /^E[A-Z0-9]+$/.test(error.code) ? error.code : undefined;
}
