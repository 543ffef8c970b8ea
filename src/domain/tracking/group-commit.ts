import { hostname } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import { DomainError, retryLater } from "../kernel/errors.ts";
import { processedTopic, type Topics } from "../kernel/topics.ts";
import { fnv1a } from "../kernel/ids.ts";
import { outageOf } from "../kernel/outages.ts";
import { retainedKey, type Transact, type Work } from "../kernel/work.ts";
import { type Ingested, type NewEvent, partsOf, projectsOf } from "./event-input.ts";
import { effectsShown, readStatuses, type StatusOfEvent } from "./events.ts";
import { type MeteredRequest, type Sender, storeMetered } from "./meter.ts";

/** Transactions of a process that count at once without meeting. */
const LANES = 8;
/** Of them, those of groups; the others count single requests within larger transactions. */
const GROUP_LANES = 4;
/** Processes that never meet, as far as their numbers differ: those of one machine mostly do. */
const PROCESSES = 32;

const first = 1 + ((fnv1a(hostname()) + process.pid) % PROCESSES) * LANES;
let turn = 0;

/** Returns the slot of a lane; at most one transaction at a time should count in each. */
export const groupSlot = (lane: number): number => first + (lane % GROUP_LANES);

/** Returns a slot for a transaction that knows nothing of others. */
const singleSlot = (): number => {
  turn = (turn + 1) % (LANES - GROUP_LANES);
  return first + GROUP_LANES + turn;
};

/** The response for the sender of an event. */
export const EventResult = z
  .object({
    eventId: z.uuid().nullable(),
    status: z.enum(["PENDING", "PROCESSED", "DUPLICATE", "REJECTED", "FAILED"]),
    skipped: z.boolean(),
    message: z.string(),
    existingEventId: z.uuid().optional(),
    effects: effectsShown.effects
      .optional()
      .meta({ description: "With wait=true, once the event is processed" }),
    effectsLeftOut: effectsShown.effectsLeftOut,
    warnings: z
      .array(z.string())
      .optional()
      .meta({
        description:
          "Fields that no event has, which were ignored, and where the event does not fit the schema of " +
          "its type, which only warns",
      }),
  })
  .meta({ id: "EventResult" });
export type EventResult = z.output<typeof EventResult>;

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

/** How long `?wait=true` waits before it responds with PENDING, in ms. */
const WAIT_MAX_MS = 2_000;
/** Polling interval in ms, for signals that get lost or while Redis is unavailable. */
const LOOK_EVERY_MS = 250;
/** Maximum events of one request that can be waited for. */
export const WAIT_MAX_EVENTS = 50;

/**
 * Waits until the PENDING results are decided or the time is up, and fills in the outcome known then. To be
 * called after the commit: it subscribes first, then reads. The workers' signal only triggers a read; the
 * database has the outcome.
 */
const settle = async (
  { transact, topics }: { transact: Transact; topics: Topics },
  events: readonly NewEvent[],
  results: readonly EventResult[],
): Promise<void> => {
  const pending = new Map(results.filter((r) => r.status === "PENDING").map((r) => [r.eventId!, r]));
  const asked = events.filter((event) => pending.has(event.id));
  if (asked.length === 0) return;
  const signals = await listen(topics, new Set(asked.map((event) => event.h)));
  try {
    const deadlineMs = performance.now() + WAIT_MAX_MS;
    while (pending.size > 0) {
      const signal = signals.next();
      for (const status of await readInTime(transact, asked, deadlineMs)) {
        if (status.status === "PENDING") continue;
        Object.assign(pending.get(status.eventId) ?? {}, outcome(status));
        pending.delete(status.eventId);
      }
      if (performance.now() > deadlineMs) return;
      if (pending.size > 0) await signal;
    }
  } finally {
    signals.close();
  }
};

type SignalStream = { next(): Promise<void>; close(): void };

const listen = async (topics: Topics, parts: ReadonlySet<number>): Promise<SignalStream> => {
  let wake = (): void => undefined;
  let timer: NodeJS.Timeout | undefined;
  const listening = [...parts].map((part) => topics.subscribe(processedTopic(part), () => wake()));
  const ends = await Promise.allSettled(listening);
  return {
    next: () =>
      new Promise<void>((resolve) => {
        wake = resolve;
        clearTimeout(timer);
        timer = setTimeout(resolve, LOOK_EVERY_MS);
      }),
    close: () => {
      clearTimeout(timer);
      for (const end of ends) if (end.status === "fulfilled") end.value();
    },
  };
};

/**
 * Reads the outcome until the time is up: the events are stored, so a database that stalls or fails now is
 * only a reason to respond with PENDING.
 */
const readInTime = async (
  transact: Transact,
  events: readonly NewEvent[],
  deadlineMs: number,
): Promise<StatusOfEvent[]> => {
  const late = new AbortController();
  const read = readAll(transact, events).catch((error: unknown) => {
    if (outageOf(error) === undefined) throw error;
    return [];
  });
  try {
    const waitMs = Math.max(LOOK_EVERY_MS, deadlineMs - performance.now());
    return await Promise.race([read, delay(waitMs, [], { signal: late.signal }).catch(() => [])]);
  } finally {
    late.abort();
    read.catch(() => undefined);
  }
};

/** Reads the statuses of events that may belong to several projects. */
const readAll = (transact: Transact, events: readonly NewEvent[]): Promise<StatusOfEvent[]> =>
  transact(async (work) => {
    const statuses: StatusOfEvent[] = [];
    for (const projectId of projectsOf(events)) {
      const ids = events.filter((event) => event.p === projectId).map((event) => event.id);
      statuses.push(...(await readStatuses(work, projectId, ids)));
    }
    return statuses;
  });

const outcome = ({ status, error, effects, effectsLeftOut }: StatusOfEvent): Partial<EventResult> => {
  const shown = effectsLeftOut === undefined ? { effects } : { effects, effectsLeftOut };
  if (status === "PROCESSED") return { status, message: "Event processed", ...shown };
  return { status: status === "FAILED" ? "FAILED" : "REJECTED", message: error ?? "Event failed", ...shown };
};

export type BatchResult = { accepted: number; rejected: number; skipped: number; results: EventResult[] };

type Counter = { inc(by: number): void };
type TrackParts = {
  ingest: Ingest;
  transact: Transact;
  topics: Topics;
  metrics: { eventsAccepted: Counter; eventsRejected: Counter; eventsSkipped: Counter };
};

/** `settle` waits for the outcome, at most WAIT_MAX_MS; to be called after the events are committed. */
type Tracked<T> = {
  result: T;
  settle: (parts: Pick<TrackParts, "transact" | "topics">) => Promise<T>;
};

type Batch = { sender: Sender; inputs: readonly (NewEvent | DomainError)[] };

/**
 * Stores the valid events of a tenant's batch and returns a result for each in order; an input that is an
 * error is REJECTED with its message.
 * @throws DomainError PAYMENT_REQUIRED PLAN_LIMIT_EXCEEDED
 */
export const trackBatch = async (
  parts: Pick<TrackParts, "ingest" | "metrics">,
  { sender, inputs }: Batch,
): Promise<Tracked<BatchResult>> => {
  const events = inputs.filter((input): input is NewEvent => !(input instanceof DomainError));
  const stored = await parts.ingest(sender, events);
  let next = 0;
  const results = inputs.map((input) =>
    input instanceof DomainError ? rejected(input) : resultOf(stored[next++]!, input.w),
  );
  const counts = countsOf(results);
  parts.metrics.eventsAccepted.inc(counts.accepted);
  parts.metrics.eventsRejected.inc(counts.rejected);
  parts.metrics.eventsSkipped.inc(counts.skipped);
  const result = { ...counts, results };
  return {
    result,
    settle: async (later) => {
      if (events.length <= WAIT_MAX_EVENTS) await settle(later, events, results);
      return result;
    },
  };
};

const rejected = ({ message }: DomainError): EventResult => ({
  eventId: null,
  status: "REJECTED",
  skipped: false,
  message,
});

const resultOf = (stored: Ingested, warnings: NewEvent["w"]): EventResult => {
  if (stored.kind === "stored") {
    return {
      eventId: stored.eventId,
      status: "PENDING",
      skipped: false,
      message: "Event queued for processing",
      ...(warnings ? { warnings: [...warnings] } : {}),
    };
  }
  const { existingEventId, isSameBody, isReverted } = stored;
  const message = [
    "An event with this idempotencyKey was accepted before",
    ...(isSameBody ? [] : [" with a different body; the first one stands"]),
    ...(isReverted ? ["; it was reverted since: to count it again, send it with another key"] : []),
  ].join("");
  return { eventId: existingEventId, status: "DUPLICATE", skipped: true, message, existingEventId };
};

const countsOf = (results: readonly EventResult[]): Omit<BatchResult, "results"> => {
  const skipped = results.filter((result) => result.status === "DUPLICATE").length;
  const refused = results.filter((result) => result.status === "REJECTED").length;
  return { accepted: results.length - skipped - refused, rejected: refused, skipped };
};
