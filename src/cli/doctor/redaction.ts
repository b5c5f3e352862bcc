// Removes from a report what its reader must not learn: the user's home folder and name in paths. Values of secrets are
// never read into a report in the first place.

import { homedir, userInfo } from "node:os";

/** What identifies the user. */
interface UserIdentity {
  readonly home: string;
  readonly name: string;
}

/** Names that say nothing about a person, and that occur in paths of the system. */
const COMMON_NAMES = ["", "root", "node", "user", "ubuntu", "debian", "app"];
const NAME_REPLACEMENT = "USER";
/** The name of a folder in which systems keep a user's files: another one than this process's, under sudo. */
const HOME_FOLDER = /(?<=(?:^|[^\w.-])(?:\/home\/|\/Users\/|[A-Za-z]:\\Users\\))[^/\\:;\s"']+/g;

/** The user of this process. */
export function currentUser(): UserIdentity {
  let name = process.env["USER"] ?? process.env["USERNAME"] ?? "";
  try {
    name = userInfo().username;
  } catch {
    // A container may run under a number that has no name.
  }
  return { home: homedir(), name };
}

/** A copy of a report in which home folders are `~` and the user's name in a path is `USER`. */
export function redacted<Value>(value: Value, user: UserIdentity = currentUser()): Value {
  if (typeof value === "string") return redactedText(value, user) as Value;
  if (Array.isArray(value)) return value.map((item) => redacted<unknown>(item, user)) as Value;
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, redacted<unknown>(item, user)])) as Value;
}

function redactedText(text: string, { home, name }: UserIdentity): string {
  const withoutHome =
    home.length > 1 ? text.replace(new RegExp(`(?<![\\w.-])${quoted(home)}(?![\\w.-])`, "g"), "~") : text;
  const withoutFolders = withoutHome.replace(HOME_FOLDER, NAME_REPLACEMENT);
  if (COMMON_NAMES.includes(name)) return withoutFolders;
  return withoutFolders.replace(new RegExp(`(?<=[/\\\\])${quoted(name)}(?![\\w.-])`, "g"), NAME_REPLACEMENT);
}

function quoted(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`);
}
