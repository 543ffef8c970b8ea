import { createHash } from "node:crypto";
import {
  appendFileSync,
  existsSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { z } from "zod";
import { ApiFailure } from "./call-api.ts";

/** Maximum number of characters kept of a rejected line. */
const REJECTED_TEXT_MAX = 4_000;

/** How far an import has come: every line up to `line` is answered. */
const State = z.object({
  version: z.literal(2),
  startedAt: z.string(),
  line: z.int().min(0),
  /** Of the file up to the line: proof that it is unchanged. */
  digest: z.string(),
  counts: z.object({
    accepted: z.int(),
    skipped: z.int(),
    rejected: z.int(),
    /** Skipped events in batches that were sent twice because an answer was lost. */
    repeated: z.int(),
  }),
  rejected: z.object({ file: z.string(), bytes: z.int() }),
});
export type ImportState = z.infer<typeof State>;
export type Counts = ImportState["counts"];

/** The state of an import that begins. */
export const newState = (rejected: string): ImportState => ({
  version: 2,
  startedAt: new Date().toISOString(),
  line: 0,
  digest: "",
  counts: { accepted: 0, skipped: 0, rejected: 0, repeated: 0 },
  rejected: { file: rejected, bytes: 0 },
});

/**
 * Path of a file's state for one destination. The key is only part of a hash, so that two projects have two
 * state files and neither reveals a key.
 */
export const statePath = (file: string, url: string, key: string): string => {
  const id = createHash("sha256").update(`${url}\0${key}`).digest("hex").slice(0, 8);
  return `${file}.${id}.laurel-import.json`;
};

/** Undefined when there is none. @throws ApiFailure when it cannot be read */
export const loadState = (path: string): ImportState | undefined => {
  if (!existsSync(path)) return undefined;
  try {
    return State.parse(JSON.parse(readFileSync(path, "utf8")));
  } catch {
    throw new ApiFailure(`${path} is not the state of an import: delete it, or start over with --no-resume`);
  }
};

/** Replaces the state file atomically: a crash leaves the old or the new one. */
export const saveState = (path: string, state: ImportState): void => {
  try {
    writeFileSync(`${path}.new`, JSON.stringify(state));
    renameSync(`${path}.new`, path);
  } catch (error) {
    throw new ApiFailure(
      `cannot write ${path}: ${(error as Error).message} (--state FILE puts it elsewhere)`,
    );
  }
};

export const removeState = (path: string): void => rmSync(path, { force: true });

export type RejectedLine = { line: number; reason: string; text: string };

/**
 * Returns what adds lines to the file of rejected ones, which is created with the first, and returns its
 * size.
 * @param keepBytes how much of an earlier part of the same import to keep; anything that an interrupted run
 * wrote after its last saved state is truncated, since those lines will be repeated
 */
export const openRejected = (path: string, keepBytes: number): ((lines: RejectedLine[]) => number) => {
  let isOpen = false;
  let bytes = keepBytes;
  return (lines) => {
    if (lines.length === 0) return bytes;
    if (!isOpen && keepBytes > 0 && existsSync(path))
      truncateSync(path, Math.min(keepBytes, statSync(path).size));
    else if (!isOpen) writeFileSync(path, "");
    isOpen = true;
    appendFileSync(path, lines.map(recordOf).join(""));
    return (bytes = statSync(path).size);
  };
};

const recordOf = ({ line, reason, text: whole }: RejectedLine): string => {
  const text = whole.slice(0, REJECTED_TEXT_MAX);
  const isCut = text.length < whole.length;
  return `${JSON.stringify({ line, reason, text, ...(isCut ? { truncated: true } : {}) })}\n`;
};
