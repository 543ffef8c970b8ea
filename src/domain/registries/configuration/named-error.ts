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

/** Runs the work of one change of an import. @throws namedError of what it throws */
export const naming = async <T>(change: ConfigChange, run: () => T | Promise<T>): Promise<T> => {
  try {
    return await run();
  } catch (error) {
    throw namedError(error, change);
  }
};
