// Accepts paths without /v1: clients are configured with and without it in their base URL.

const UNVERSIONED = /^\/(?:chat\/completions|completions|embeddings|messages|models|responses)(?=[/?]|$)/;

/** The URL with /v1 in front of paths that need it. */
export function versionedUrl(url: string): string {
  return UNVERSIONED.test(url) ? `/v1${url}` : url;
}
