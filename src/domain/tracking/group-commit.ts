import { DomainError } from "../kernel/errors.ts";
import { outageOf } from "../kernel/outages.ts";
import type { Transact, Work } from "../kernel/work.ts";
import { type NewEvent, partsOf } from "./event-input.ts";
import { type Ingested, storeEvents } from "./ingest.ts";

/** Stores the events of one request durably; the results are in their order. */
export type Ingest = (events: readonly NewEvent[]) => Promise<Ingested[]>;

export type GroupCommitOptions = {
  transact: Transact;
  /** Maximum events of one transaction; a larger request gets a transaction of its own. */
  maxEvents: number;
  /** Rows per statement. */
  statementRows: number;
  /** Maximum concurrent transactions. */
  concurrency: number;
  /** Maximum waiting events; beyond it requests are rejected with a retry hint. */
  maxWaiting: number;
  /** Called before the next transaction starts; a single-connection engine serves the sockets here. */
  pause?: () => Promise<void>;
  /** Called with the queue partitions of committed events. */
  onStored(parts: ReadonlySet<number>): void;
};

type Request = {
  events: readonly NewEvent[];
  resolve(results: Ingested[]): void;
  reject(error: unknown): void;
};

/** Stores the events of a request in an open transaction, for work that must share its commit. */
export const ingestIn =
  ({ statementRows, onStored }: Pick<GroupCommitOptions, "statementRows" | "onStored">) =>
  (work: Work): Ingest =>
  async (events) => {
    if (events.length === 0) return [];
    const results = await storeEvents(work, events, statementRows);
    work.afterCommit(() => onStored(partsOf(events)));
    return results;
  };

/**
 * Commits a group in one transaction, or, when that fails, each request in its own; not on a database outage,
 * where they would all wait for the same error.
 */
const commitGroup = async (options: GroupCommitOptions, group: readonly Request[]): Promise<void> => {
  try {
    const events = group.flatMap((request) => request.events);
    const results = await options.transact((work) => storeEvents(work, events, options.statementRows));
    let start = 0;
    for (const request of group) {
      request.resolve(results.slice(start, start + request.events.length));
      start += request.events.length;
    }
    options.onStored(partsOf(events));
  } catch (error) {
    const outage = outageOf(error);
    const isForAll = group.length === 1 || (outage !== undefined && outage !== "busy");
    if (isForAll) for (const { reject } of group) reject(error);
    else for (const request of group) await commitGroup(options, [request]);
  }
};

/**
 * Group commit: requests that arrive during a transaction wait and share the next one, so the cost of a
 * durable commit is paid once for all of them. A group that fails is retried request by request, so that a
 * request can fail only by itself.
 */
export const createIngest = (options: GroupCommitOptions): Ingest => {
  const waiting: Request[] = [];
  let waitingEvents = 0;
  let running = 0;

  const takeGroup = (): Request[] => {
    const group: Request[] = [];
    let events = 0;
    while (
      waiting.length > 0 &&
      (group.length === 0 || events + waiting[0]!.events.length <= options.maxEvents)
    ) {
      const request = waiting.shift()!;
      events += request.events.length;
      group.push(request);
    }
    waitingEvents -= events;
    return group;
  };

  const pump = async (): Promise<void> => {
    if (running >= options.concurrency) return;
    running++;
    try {
      while (waiting.length > 0) {
        await commitGroup(options, takeGroup());
        await options.pause?.();
      }
    } finally {
      running--;
    }
  };

  return (events) => {
    if (events.length === 0) return Promise.resolve([]);
    if (waitingEvents + events.length > options.maxWaiting) {
      const message = "too many events are waiting to be stored: try again";
      return Promise.reject(new DomainError("SERVICE_UNAVAILABLE", message, { retryAfterSeconds: 1 }));
    }
    return new Promise((resolve, reject) => {
      waiting.push({ events, resolve, reject });
      waitingEvents += events.length;
      void pump();
    });
  };
};
