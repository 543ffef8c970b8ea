import { createHash } from "node:crypto";
import {
  closeSync,
  existsSync,
  ftruncateSync,
  fstatSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { z } from "zod";
import { ImportFailure } from "./import-client.ts";

/** Maximum number of characters kept of a rejected line. */
export const REJECTED_TEXT_MAX = 4_000;

/** Progress of an import. A line is done when its number is not above the one kept for its lane. */
const State = z.object({
  version: z.literal(1),
  file: z.string(),
  url: z.string(),
  startedAt: z.string(),
  updatedAt: z.string(),
  /** The last acknowledged line of each lane. */
  lanes: z.array(z.int().min(0)).min(1),
  /** A line and the digest of the file up to it: proof that the file is unchanged. */
  check: z.object({ line: z.int().min(0), digest: z.string() }),
  counts: z.object({
    accepted: z.int(),
    skipped: z.int(),
    rejected: z.int(),
    /** Lines in batches that were sent twice because an answer was lost. */
    repeated: z.int(),
  }),
  rejected: z.object({ file: z.string(), bytes: z.int() }),
});
export type ImportState = z.infer<typeof State>;

/**
 * Path of a file's state for one destination. The key is only part of a hash, so that two projects have two
 * state files and neither reveals a key.
 */
export const statePath = (file: string, url: string, key: string): string => {
  const id = createHash("sha256").update(`${url}\0${key}`).digest("hex").slice(0, 8);
  return `${file}.${id}.laurel-import.json`;
};

/** Undefined when there is none. @throws ImportFailure when it cannot be read */
export const loadState = (path: string): ImportState | undefined => {
  if (!existsSync(path)) return undefined;
  try {
    return State.parse(JSON.parse(readFileSync(path, "utf8")));
  } catch {
    throw new ImportFailure(
      `${path} is not the state of an import: delete it, or start over with --no-resume`,
    );
  }
};

/** Replaces the state file atomically: a crash leaves the old or the new one. */
export const saveState = (path: string, state: ImportState): void => {
  try {
    writeFileSync(`${path}.new`, JSON.stringify(state));
    renameSync(`${path}.new`, path);
  } catch (error) {
    throw new ImportFailure(
      `cannot write ${path}: ${(error as Error).message} (--state FILE puts it elsewhere)`,
    );
  }
};

export const removeState = (path: string): void => rmSync(path, { force: true });

export type RejectedLine = { line: number; reason: string; text: string };

/**
 * Opens the file of rejected lines, which is created with the first one.
 * @param keepBytes how much of an earlier part of the same import to keep; anything that an interrupted run
 * wrote after its last saved state is truncated, since those lines will be repeated
 */
export const openRejected = (path: string, keepBytes: number) => {
  let fd: number | undefined;
  let bytes = keepBytes;
  const open = (): number => {
    const isContinued = keepBytes > 0 && existsSync(path);
    const opened = openSync(path, isContinued ? "r+" : "w");
    if (!isContinued) bytes = 0;
    else if (fstatSync(opened).size > keepBytes) ftruncateSync(opened, keepBytes);
    else bytes = fstatSync(opened).size;
    return opened;
  };
  return {
    path,
    add: (rejected: RejectedLine): void => {
      const text = rejected.text.slice(0, REJECTED_TEXT_MAX);
      const isCut = text.length < rejected.text.length;
      const record = JSON.stringify({ ...rejected, text, ...(isCut ? { truncated: true } : {}) });
      fd ??= open();
      bytes += writeSync(fd, `${record}\n`, bytes);
    },
    bytes: (): number => bytes,
    close: (): void => {
      if (fd !== undefined) closeSync(fd);
    },
  };
};
export type RejectedFile = ReturnType<typeof openRejected>;
