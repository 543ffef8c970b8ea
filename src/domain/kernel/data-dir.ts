import { mkdir, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { codeOf } from "./errors.ts";

const REMEDY = "make it a directory that this user can write to, or set DATA_DIR";

/**
 * Converts an error from using the data directory: for a file-system error (permissions, read-only mount, not
 * a directory, disk full) one that names the directory and the remedy; others are returned unchanged.
 */
export const dataDirError = (dataDir: string, error: unknown): unknown => {
  if (!(error instanceof Error) || !("syscall" in error)) return error;
  const message = `the data directory ${dataDir} cannot be used (${error.message}): ${REMEDY}`;
  return new Error(message, { cause: error });
};

const makeOne = async (path: string): Promise<void> => {
  try {
    await mkdir(path, { mode: 0o700 });
  } catch (error) {
    if (codeOf(error) !== "EEXIST" || !(await stat(path)).isDirectory()) throw error;
  }
};

/**
 * Creates a directory for this user alone, with missing parents. Not with Node's `recursive` option, which
 * loops forever where a directory exists but does not allow new entries, as in /proc.
 * @throws Error of the file system
 */
export const makeDir = async (path: string): Promise<void> => {
  try {
    return await makeOne(path);
  } catch (error) {
    if (codeOf(error) !== "ENOENT" || dirname(path) === path) throw error;
  }
  await makeDir(dirname(path));
  await makeOne(path);
};
