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
