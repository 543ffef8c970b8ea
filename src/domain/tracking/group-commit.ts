import { DomainError } from "../kernel/errors.ts";
import { outageOf } from "../kernel/outages.ts";
import type { Transact, Work } from "../kernel/work.ts";
import type { NewEvent } from "./event-input.ts";
import { type Ingested, storeEvents } from "./ingest.ts";

/** Stores the events of one request durably; the answer is in their order. */
export type Ingest = (events: readonly NewEvent[]) => Promise<Ingested[]>;

export type GroupCommitOptions = {
  transact: Transact;
  /** Events in one transaction; a larger request goes alone. */
  maxEvents: number;
  /** Rows in one statement. */
  statementRows: number;
  /** Transactions in flight. */
  concurrency: number;
  /** Events that may wait; beyond it the caller is told to come back. */
  maxWaiting: number;
  /** Called before the next transaction starts; a single-connection engine lets the sockets breathe here. */
  pause?: () => Promise<void>;
  /** Called with the queue partitions of what has been committed. */
  onStored(parts: ReadonlySet<number>): void;
};

type Request = {
  events: readonly NewEvent[];
  resolve(results: Ingested[]): void;
  reject(error: unknown): void;
};

/** Stores the events of a request in a transaction in progress, for what must share its commit. */
export const ingestIn =
  ({ statementRows, onStored }: Pick<GroupCommitOptions, "statementRows" | "onStored">) =>
  (work: Work): Ingest =>
  async (events) => {
    if (events.length === 0) return [];
    const results = await storeEvents(work, events, statementRows);
    work.afterCommit(() => onStored(new Set(events.map((event) => event.h))));
    return results;
  };

/**
 * Commits a group in one transaction, or, when that fails, each request in its own; but where the database
 * does not work, they would wait one after the other for the same answer.
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
    options.onStored(new Set(events.map((event) => event.h)));
  } catch (error) {
    const outage = outageOf(error);
    const isForAll = group.length === 1 || (outage !== undefined && outage !== "busy");
    if (isForAll) for (const { reject } of group) reject(error);
    else for (const request of group) await commitGroup(options, [request]);
  }
};

/**
 * Group commit: requests that arrive while a transaction is on its way wait and then share the next one, so
 * the cost of a durable commit is paid once for all of them. A group that fails is tried again request by
 * request, so a request can fail only by itself.
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
      const message = "too many events are waiting to be stored";
      return Promise.reject(new DomainError("SERVICE_UNAVAILABLE", message, { retryAfterSeconds: 1 }));
    }
    return new Promise((resolve, reject) => {
      waiting.push({ events, resolve, reject });
      waitingEvents += events.length;
      void pump();
    });
  };
};
