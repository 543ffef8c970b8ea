import { mkdir, stat } from "node:fs/promises";
import { dirname } from "node:path";

const REMEDY = "it has to be a directory that this user may write to; mend that or set DATA_DIR";

/**
 * What is to be thrown where the data directory was used and `error` came of it: for one of the file system
 * (no rights, a read-only mount, no directory, a full disk) an error that names the directory and says what
 * to do; any other as it is.
 */
export const dataDirError = (dataDir: string, error: unknown): unknown => {
  if (!(error instanceof Error) || !("syscall" in error)) return error;
  const message = `the data directory ${dataDir} cannot be used (${error.message}): ${REMEDY}`;
  return new Error(message, { cause: error });
};

const hasCode = (error: unknown, code: string): boolean =>
  error instanceof Error && "code" in error && error.code === code;

const makeOne = async (path: string): Promise<void> => {
  try {
    await mkdir(path, { mode: 0o700 });
  } catch (error) {
    if (!hasCode(error, "EEXIST") || !(await stat(path)).isDirectory()) throw error;
  }
};

/**
 * Makes a directory for this user alone, with those above it that are not there. Not by Node's own option
 * `recursive`, which tries for ever where a directory is there and takes none, as in /proc.
 * @throws Error of the file system
 */
export const makeDir = async (path: string): Promise<void> => {
  try {
    return await makeOne(path);
  } catch (error) {
    if (!hasCode(error, "ENOENT") || dirname(path) === path) throw error;
  }
  await makeDir(dirname(path));
  await makeOne(path);
};
