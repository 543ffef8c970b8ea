import { DomainError } from "./errors.ts";
import type { Transact } from "./work.ts";

/**
 * What PostgreSQL says of names and types that are not there, of plans whose tables have changed, and of
 * tables that have gone beneath a statement.
 */
const OF_SCHEMA = /^(42...|0A000|XX000)$/;

/** For how long a schema that was found to be another's is not looked at again, in ms. */
const FOUND_MS = 1_000;

/** Seconds after which a request is tried again. */
const RETRY_SECONDS = 5;

const isOfSchema = (error: unknown): boolean => {
  if (!(error instanceof Error)) return false;
  const code = "code" in error && typeof error.code === "string" ? error.code : "";
  return OF_SCHEMA.test(code) || isOfSchema(error.cause);
};

/**
 * Makes transactions tell what failed only because the schema is not this version's, while migrations are
 * taken back or a newer version has made its own: no bug, and no fault of what was to be done.
 * @param isOurs whether the schema is this version's, by the database
 * @returns for a Transact one that throws SERVICE_UNAVAILABLE NOT_READY then
 */
export const reportOtherSchema = (isOurs: () => Promise<boolean>): ((transact: Transact) => Transact) => {
  let othersUntilMs = -Infinity;
  const isOthers = async (): Promise<boolean> => {
    if (performance.now() < othersUntilMs) return true;
    if (await isOurs().catch(() => true)) return false;
    othersUntilMs = performance.now() + FOUND_MS;
    return true;
  };
  return (transact) => async (run) => {
    try {
      return await transact(run);
    } catch (error) {
      if (!isOfSchema(error) || !(await isOthers())) throw error;
      throw new DomainError(
        "SERVICE_UNAVAILABLE",
        "The database is of another version right now, try again",
        {
          reason: "NOT_READY",
          retryAfterSeconds: RETRY_SECONDS,
        },
      );
    }
  };
};
