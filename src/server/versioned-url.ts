// Paths without the version that the APIs have in front: base addresses are written both ways, and one of them is meant.

const UNVERSIONED = /^\/(?:chat\/completions|completions|embeddings|messages|models|responses)(?=[/?]|$)/;

export function versionedUrl(url: string): string {
  return UNVERSIONED.test(url) ? `/v1${url}` : url;
}
