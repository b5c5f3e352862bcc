// How the lines of a log are written: as JSON for machines, or as text for people.

/** The formats of a log; "auto" is "pretty" if the log goes to a terminal and "json" otherwise. */
export const LOG_FORMATS = ["auto", "pretty", "json"] as const;

/** The format of a log's lines. */
export type LogFormat = (typeof LOG_FORMATS)[number];

/** Whether a text names a log format. */
export function isLogFormat(text: string): text is LogFormat {
  return (LOG_FORMATS as readonly string[]).includes(text);
}
