import { DomainError } from "./errors.ts";
import type { Commit } from "./commit.ts";
import type { Read } from "./read.ts";
import type { Transact } from "./work.ts";

/**
 * PostgreSQL's error codes for missing names and types, plans whose tables have changed, and tables dropped
 * during a statement.
 */
const OF_SCHEMA = /^(42...|0A000|XX000)$/;

/** How long the result of a failed schema check is reused, in ms. */
const FOUND_MS = 1_000;

/** Seconds after which a request may be retried. */
const RETRY_SECONDS = 5;

const isOfSchema = (error: unknown): boolean => {
  if (!(error instanceof Error)) return false;
  const code = "code" in error && typeof error.code === "string" ? error.code : "";
  return OF_SCHEMA.test(code) || isOfSchema(error.cause);
};

/** Wrappers of what accesses the database. */
export type SchemaReports = {
  transact(transact: Transact): Transact;
  read(read: Read): Read;
  commit(commit: Commit): Commit;
};

/**
 * Makes transactions and reads report failures that are only due to a schema of another version, while
 * migrations are reverted or a newer version has migrated: neither a bug nor the fault of the operation.
 * @param isOurs returns whether the database has this version's schema
 * @returns wrappers that throw SERVICE_UNAVAILABLE NOT_READY then
 */
export const reportOtherSchema = (isOurs: () => Promise<boolean>): SchemaReports => {
  let othersUntilMs = -Infinity;
  const isOthers = async (): Promise<boolean> => {
    if (performance.now() < othersUntilMs) return true;
    if (await isOurs().catch(() => true)) return false;
    othersUntilMs = performance.now() + FOUND_MS;
    return true;
  };
  const explain = async (error: unknown): Promise<never> => {
    if (!isOfSchema(error) || !(await isOthers())) throw error;
    throw new DomainError("SERVICE_UNAVAILABLE", "The database is being migrated: try again", {
      reason: "NOT_READY",
      retryAfterSeconds: RETRY_SECONDS,
    });
  };
  return {
    transact: (transact) => async (run) => transact(run).catch(explain),
    read: (read) => async (statement) => read<never>(statement).catch(explain),
    commit: (commit) => async (statements) => commit<never>(statements).catch(explain),
  };
};
