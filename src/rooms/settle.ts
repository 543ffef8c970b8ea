import { DomainError } from "../domain/kernel/errors.ts";

/** Returns the result, or the refusal that `run` throws: one of several must not fail the others. */
export const settle = <T>(run: () => T): T | DomainError => {
  try {
    return run();
  } catch (error) {
    if (error instanceof DomainError) return error;
    throw error;
  }
};
