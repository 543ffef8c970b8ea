import type { SqlEntityManager } from "@mikro-orm/sql";
import type { Actor } from "./caller.ts";
import type { EventData, EventType } from "./events/domain-events.ts";
import type { EmitOptions, OutboxRow } from "./outbox-row.ts";
import type { Db } from "./db.ts";
import type { Member } from "./member.ts";
import type { WorkState } from "./work-state.ts";

/**
 * Rows that a transaction may see (row-level security). "web": those of the tenant and of the named projects.
 * "accounts": the accounts of all tenants, and no players: for look-ups before a tenant is known, and for
 * super-admins. Without one: everything, for workers, the relay and ingestion.
 */
export type RowScope = { by?: Actor } & (
  | {
      role: "web";
      tenantId: string;
      projectIds: readonly string[];
      /** How far the clock of its project is ahead of the server's, in ms; absent: not at all. */
      aheadMs?: number;
    }
  | { role: "accounts" }
);

/**
 * A transaction in progress. Domain functions take a Work; they never open, flush or commit one, and access
 * nothing but the database while they hold it.
 */
export type Work = {
  /** Unit of work for definitions and accounts. */
  em: SqlEntityManager;
  /** SQL inside this transaction, for hot paths. */
  db: Db;
  /** The time for everything about players: in a sandbox, that of its clock. */
  now: Date;
  /** The server's time: for leases, retries, keys, limits and retention. */
  serverNow: Date;
  /** Originator of the request; undefined for work of the server itself. */
  by: Actor | undefined;
  /** The request's part in a transaction that it shares with others; undefined where it has its own. */
  member: Member | undefined;
  /** Whether requests share the transaction: none of them may then wait for locks of its own. */
  isShared: boolean;
  /** What features keep until the transaction is over, each under its `localKey`. */
  local: WorkState<"TRANSACTION">;
  /** What they keep until `transact` returns, through its retries, each under its `retainedKey`. */
  retained: WorkState<"RETRIES">;
  /** Its turns among the transactions of this process; see lanes.ts. */
  lanes: { readonly undone: number; take(key: string): void; has(key: string): boolean };
  /** Puts an event into the outbox of this commit. */
  emit<T extends EventType>(projectId: string, type: T, data: EventData<T>, options?: EmitOptions): void;
  /** Notifies the relays of outbox rows that a statement has written, once the commit is durable. */
  wroteOutbox(rows: readonly OutboxRow[]): void;
  /** Makes this process read of a project anew, once the commit is durable. `emit` and outbox rows do too. */
  changed(projectId: string): void;
  /** Notifies the workers of tracked events' partitions once the commit is durable. */
  wakeEvents(parts: Iterable<number>): void;
  /** Notifies the workers of projects' long work once the commit is durable. */
  wakeJobs(): void;
  /** Notifies the delivery of webhooks with something to send once the commit is durable. */
  wakeWebhooks(ids: Iterable<string>): void;
  /** Runs once the commit is durable; an error there is logged and rolls nothing back. */
  afterCommit(run: () => void): void;
  /** Returns a function that forgets what has been emitted and noted since: for what is rolled back alone. */
  mark(): () => void;
};

export type Transact = <T>(run: (work: Work) => Promise<T>) => Promise<T>;

/** Creates a Transact whose transactions see no more than `rowScope`. */
export type TransactAs = (rowScope: RowScope) => Transact;
