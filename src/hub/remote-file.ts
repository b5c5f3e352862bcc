// A file on a server, as the server has described it. The identity decides whether bytes that were fetched at different
// times belong to the same file.

import { createHash, type Hash } from "node:crypto";

/** How a file's content is checked when it is complete. */
export interface Checksum {
  /** `git` is the hash of a Git object, which the hub states for files outside LFS. */
  readonly kind: "sha256" | "git";
  readonly hex: string;
}

/** A file on a server. */
export interface RemoteFile {
  /** For messages and progress: its path in the repository. */
  readonly name: string;
  readonly url: URL;
  readonly sizeBytes: number;
  /** The entity tag without quotes, or another validator; undefined if the server states none. */
  readonly etag: string | undefined;
  /** Who states the tag: the hub, before it redirects, or the host that has the file. */
  readonly statedBy: "hub" | "host";
  readonly checksum: Checksum | undefined;
}

/** The server has another version of a file than the one that was asked for. */
export class FileChanged extends Error {
  constructor(name: string) {
    super(`${name} has changed on the server`);
  }
}

/** An entity tag without the quotes and the mark of a weak one; undefined if there is none. */
export function plainEtag(header: string | null): string | undefined {
  const tag = header
    ?.trim()
    .replace(/^W\//, "")
    .replace(/^"(.*)"$/, "$1");
  return tag === "" ? undefined : tag;
}

/** What tells a version of a file from another: its entity tag, or else the time of its last change. */
export function validatorOf(headers: Headers): string | undefined {
  return plainEtag(headers.get("etag")) ?? headers.get("last-modified") ?? undefined;
}

/** Begins the hash of a file's content. */
export function startChecksum({ kind }: Checksum, sizeBytes: number): Hash {
  return kind === "sha256" ? createHash("sha256") : createHash("sha1").update(`blob ${sizeBytes}\0`);
}
