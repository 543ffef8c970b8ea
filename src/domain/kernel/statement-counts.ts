import { AsyncLocalStorage } from "node:async_hooks";

/**
 * What was sent to PostgreSQL: statements without `begin`, `commit` and the entering of scopes, and how often
 * an answer was waited for, that of `commit` included.
 */
export type StatementCounts = { statements: number; roundTrips: number };

const counting = new AsyncLocalStorage<StatementCounts>();

/** Runs `run`, and counts into `counts` what it and everything begun by it sends. */
export const countingStatements = <T>(counts: StatementCounts, run: () => T): T => counting.run(counts, run);

/** Counts what is sent now, where somebody wants to know. */
export const countSent = ({ statements, roundTrips }: StatementCounts): void => {
  const counts = counting.getStore();
  if (!counts) return;
  counts.statements += statements;
  counts.roundTrips += roundTrips;
};
