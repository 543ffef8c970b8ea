import { DomainError } from "../../kernel/errors.ts";
import type { ConfigChange } from "./diff.ts";

/** Returns the error of a single change with message and fields prefixed by section and key. */
export const namedError = (error: unknown, { section, key }: ConfigChange): unknown => {
  if (!(error instanceof DomainError)) return error;
  const { code, message, details, reason } = error;
  return new DomainError(code, `${section} ${key}: ${message}`, {
    details: details.map(({ field, message: text }) => ({
      field: `${section}.${key}.${field}`,
      message: text,
    })),
    ...(reason === undefined ? {} : { reason }),
  });
};

/** What a copy of another project, with drafts, has besides its document. It leaves out what is refused. */
export type Copied = {
  /** The project that is copied. */
  from: string;
  /** Is told of a change that is refused, and left out. */
  skip(change: ConfigChange, error: DomainError): void;
  /** Gets the periods of boards that have no entries any more: their rank indexes can be dropped. */
  closedPeriodIds: string[];
};

/**
 * Handles what a change throws: a copy is told of what is refused; a limit concerns all changes together.
 * @throws namedError of anything else
 */
export const skipOrThrow = (error: unknown, change: ConfigChange, copied?: Copied): void => {
  if (!copied || !(error instanceof DomainError) || error.reason?.endsWith("_LIMIT"))
    throw namedError(error, change);
  copied.skip(change, error);
};

/** Runs the work of one change of an import. @returns whether it is made @throws as `skipOrThrow` */
export const naming = async (change: ConfigChange, run: () => unknown, copied?: Copied): Promise<boolean> => {
  try {
    await run();
    return true;
  } catch (error) {
    skipOrThrow(error, change, copied);
    return false;
  }
};
