import { DomainError, retryLater } from "../kernel/errors.ts";
import { outageOf } from "../kernel/outages.ts";
import { retainedKey } from "../kernel/work-state.ts";
import type { Transact, Work } from "../kernel/work.ts";
import { type NewEvent, partsOf } from "./event-input.ts";
import { groupSlot, singleSlot } from "./count-slots.ts";
import type { Ingested } from "./ingest.ts";
import { type MeteredRequest, type Sender, storeMetered } from "./meter.ts";

/**
 * Stores the events of one request of a tenant durably; the results are in their order.
 * @throws DomainError PAYMENT_REQUIRED PLAN_LIMIT_EXCEEDED when its plan takes no more: nothing is stored
 */
export type Ingest = (sender: Sender, events: readonly NewEvent[]) => Promise<Ingested[]>;

export type GroupCommitOptions = {
  transact: Transact;
  /** Maximum events of one transaction; a larger request gets a transaction of its own. */
  maxEvents: number;
  /** Rows per statement. */
  statementRows: number;
  /** Maximum concurrent transactions. */
  concurrency: number;
  /**
   * Maximum waiting events, of which one tenant's may be half; beyond it requests are rejected with a retry
   * hint. A tenant of which fewer than OWN_WAITING wait is accepted all the same.
   */
  maxWaiting: number;
  /** Called before the next transaction starts; a single-connection engine serves the sockets here. */
  pause?: () => Promise<void>;
  /** Called with the queue partitions of committed events. */
  onStored(parts: ReadonlySet<number>): void;
};

type Request = MeteredRequest & {
  resolve(results: Ingested[]): void;
  reject(error: unknown): void;
};

/** Where a transaction counts: what it lacks there is given to it before it is tried again. */
const SINGLE_SLOT = retainedKey("slot of counted events", singleSlot);

/** Stores the events of a request in an open transaction, for work that must share its commit. */
export const ingestIn =
  ({ statementRows, onStored }: Pick<GroupCommitOptions, "statementRows" | "onStored">) =>
  (work: Work): Ingest =>
  async (sender, events) => {
    if (events.length === 0) return [];
    const request = { sender, events };
    const storing = { chunk: statementRows, slot: work.retained.get(SINGLE_SLOT) };
    const results = (await storeMetered(work, [request], storing)).get(request)!;
    if (results instanceof DomainError) throw results;
    work.afterCommit(() => onStored(partsOf(events)));
    return results;
  };

/**
 * Commits a group in one transaction, or, when that fails, each request in its own; not on a database outage,
 * where they would all wait for the same error.
 */
const commitGroup = async (
  options: GroupCommitOptions,
  group: readonly Request[],
  lane: number,
): Promise<void> => {
  const storing = { chunk: options.statementRows, slot: groupSlot(lane) };
  try {
    const results = await options.transact((work) => storeMetered(work, group, storing));
    const stored: NewEvent[] = [];
    for (const [request, result] of results) {
      if (result instanceof DomainError) request.reject(result);
      else {
        request.resolve(result);
        for (const event of request.events) stored.push(event);
      }
    }
    if (stored.length > 0) options.onStored(partsOf(stored));
  } catch (error) {
    const outage = outageOf(error);
    const isForAll = group.length === 1 || (outage !== undefined && outage !== "busy");
    if (isForAll) for (const { reject } of group) reject(error);
    else await commitApart(options, { group, lane }, error);
  }
};

/** How long the requests of a failed group are tried one by one, in ms: each may wait for the same lock. */
const APART_MAX_MS = 3_000;

const commitApart = async (
  options: GroupCommitOptions,
  { group, lane }: { group: readonly Request[]; lane: number },
  error: unknown,
): Promise<void> => {
  const endMs = performance.now() + APART_MAX_MS;
  const isBusy = outageOf(error) === "busy";
  for (const request of group) {
    if (isBusy && performance.now() > endMs) request.reject(error);
    else await commitGroup(options, [request], lane);
  }
};

/** Waiting events that a tenant may have however many wait of others. */
const OWN_WAITING = 2_000;

type Line = { requests: Request[]; events: number };

/** Requests that wait to be stored, in a line for each tenant. */
class WaitingRequests {
  /** Who is to be served next comes first. */
  readonly #lines = new Map<string, Line>();
  readonly #max: number;
  #events = 0;

  constructor(max: number) {
    this.#max = max;
  }

  get isEmpty(): boolean {
    return this.#lines.size === 0;
  }

  /** @throws DomainError SERVICE_UNAVAILABLE SERVER_BUSY when too many events wait */
  add(tenantId: string, request: Request): void {
    const line = this.#lines.get(tenantId) ?? { requests: [], events: 0 };
    const count = request.events.length;
    const isTenantsFull = line.events > 0 && line.events + count > this.#max / 2;
    const isFull = this.#events + count > this.#max && line.events + count > OWN_WAITING;
    if (isTenantsFull || isFull)
      throw retryLater("too many events are waiting to be stored: try again", "SERVER_BUSY");
    line.requests.push(request);
    line.events += count;
    this.#events += count;
    this.#lines.set(tenantId, line);
  }

  /**
   * Takes requests of at most `max` events, or one that has more: of each tenant in turn one, as long as any
   * fits, so that a newcomer waits for one request of each other tenant, however many theirs are.
   */
  takeGroup(max: number): Request[] {
    const group: Request[] = [];
    let events = 0;
    // A line that has been served comes again, after all others, as long as it has more.
    for (const [tenantId, line] of this.#lines) {
      if (events >= max) break;
      const count = line.requests[0]!.events.length;
      if (group.length > 0 && events + count > max) continue;
      group.push(this.#takeFirst(tenantId, line));
      events += count;
    }
    return group;
  }

  #takeFirst(tenantId: string, line: Line): Request {
    const request = line.requests.shift()!;
    line.events -= request.events.length;
    this.#events -= request.events.length;
    this.#lines.delete(tenantId);
    if (line.requests.length > 0) this.#lines.set(tenantId, line);
    return request;
  }
}

/**
 * Group commit: requests that arrive during a transaction wait and share the next one, so the cost of a
 * durable commit is paid once for all of them. A group that fails is retried request by request, so that a
 * request can fail only by itself.
 */
export const createIngest = (options: GroupCommitOptions): Ingest => {
  const waiting = new WaitingRequests(options.maxWaiting);
  const lanes = Array.from({ length: options.concurrency }, (_, n) => n);

  const pump = async (): Promise<void> => {
    // The lowest: a quiet server counts all in one place.
    const lane = lanes.toSorted((a, b) => a - b)[0];
    if (lane === undefined) return;
    lanes.splice(lanes.indexOf(lane), 1);
    try {
      while (!waiting.isEmpty) {
        await commitGroup(options, waiting.takeGroup(options.maxEvents), lane);
        await options.pause?.();
      }
    } finally {
      lanes.push(lane);
    }
  };

  return (sender, events) => {
    if (events.length === 0) return Promise.resolve([]);
    return new Promise((resolve, reject) => {
      waiting.add(sender.tenantId, { sender, events, resolve, reject });
      void pump();
    });
  };
};
