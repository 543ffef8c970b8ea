import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import type { SqlEntityManager } from "@mikro-orm/sql";
import { type Kysely, sql } from "kysely";
import type { Caller } from "./caller.ts";
import type { EventData, EventType } from "./domain-events.ts";
import { fnv1a, isId, newId, OUTBOX_PARTITIONS } from "./ids.ts";
import { createLanes, type Lanes, Turns } from "./lanes.ts";
import { ACCOUNTS_ROLE, WEB_ROLE } from "./migrations/row-security.ts";
import { Unprepared } from "./unprepared.ts";

/** The tables are spoken to in SQL text, so their rows are typed where they are read. */
export type Db = Kysely<Record<string, never>>;

export type EmitOptions = {
  playerId?: string;
  playerSeq?: number;
  eventId?: string;
  /** The id of the row, for one that is looked for later; else a new one. */
  id?: string;
};

/** A row of the outbox before it has been written. */
export type OutboxRow = {
  id: string;
  projectId: string;
  type: string;
  playerId: string | null;
  playerSeq: number | null;
  eventId: string | null;
  data: unknown;
};

/** Who does something, and from where: for the audit log, sessions and limits. */
export type Actor = { caller: Caller; ip: string; userAgent: string; requestId: string };

/**
 * What a transaction may see of the tables (row-level security). "web": the tenant's rows and those of the
 * named projects. "accounts": the accounts of all tenants, and nothing of players: for look-ups before a
 * tenant is known, and for super-admins. Without one: everything, for workers, the relay and ingestion.
 */
export type Sight = { by?: Actor } & (
  | { role: "web"; tenantId: string; projectIds: readonly string[] }
  | { role: "accounts" }
);

/**
 * One transaction in progress. Domain functions take a Work; they never open, flush or commit one, and they
 * speak to nothing but the database while they hold it.
 */
export type Work = {
  /** Unit of work for definitions and accounts. */
  em: SqlEntityManager;
  /** SQL inside this transaction, for hot paths. */
  db: Db;
  now: Date;
  /** Whose request this is; undefined for what the server does by itself. */
  by: Actor | undefined;
  /** Its turns among the transactions of this process. */
  turns: Turns;
  /** Puts an event into the outbox of this commit. */
  emit<T extends EventType>(projectId: string, type: T, data: EventData<T>, options?: EmitOptions): void;
  /** Rings for outbox partitions once the commit is durable. */
  ring(parts: Iterable<number>): void;
  /** Rings for partitions of tracked events once the commit is durable. */
  ringEvents(parts: Iterable<number>): void;
  /** Rings for projects' long work once the commit is durable. */
  ringJobs(): void;
  /** Rings for webhooks that have something to send once the commit is durable. */
  ringWebhooks(ids: Iterable<string>): void;
  /** Runs once the commit is durable; a throw there is logged and undoes nothing. */
  afterCommit(run: () => void): void;
};

export type Transact = <T>(run: (work: Work) => Promise<T>) => Promise<T>;

/** Makes a Transact whose transactions see no more than `sight`. */
export type TransactAs = (sight: Sight) => Transact;

/** What is told when partitions of a queue have new rows. */
export type Doorbell = {
  outbox(parts: Iterable<number>): void;
  events(parts: Iterable<number>): void;
  jobs(): void;
  webhooks(ids: Iterable<string>): void;
};

/** For where nobody waits for what is committed. */
export const NO_DOORBELL: Doorbell = {
  outbox: () => undefined,
  events: () => undefined,
  jobs: () => undefined,
  webhooks: () => undefined,
};

export type TransactParts = {
  em: SqlEntityManager;
  clock: () => Date;
  doorbell: Doorbell;
  onError: (error: unknown) => void;
  /** Shared by all transactions of a process; absent: by those of one Transact. */
  lanes?: Lanes;
};

const open = new AsyncLocalStorage<true>();

/** Whether a transaction is open here: nothing but the database may be spoken to then. */
export const isTransacting = (): boolean => open.getStore() !== undefined;

/**
 * Marks statements without parameters and answers, which are sent as one message: with `begin` where they are
 * the first of a transaction. Nobody waits for them, as with UNANSWERED.
 */
export const ONE_MESSAGE = "/* one message */";

/**
 * Marks, at its beginning, a statement that is sent often with the same text: a connection keeps its plan for
 * some seconds. Planning the large ones takes longer than running them for a few rows.
 */
export const KEPT = "/* kept */";

/**
 * Marks, at its beginning, a statement whose answer nobody needs: the next one is sent without waiting for
 * it. What it throws is thrown by that one, at the latest by the commit. KEPT may follow.
 */
export const UNANSWERED = "/* unanswered */";

const enter = async (db: Db, sight: Sight): Promise<void> => {
  const [role, tenantId, projectIds] =
    sight.role === "web" ? [WEB_ROLE, sight.tenantId, sight.projectIds] : [ACCOUNTS_ROLE, "", []];
  assert([...projectIds, ...(tenantId === "" ? [] : [tenantId])].every(isId), "a sight is made of ids");
  // Four times as cheap as set_config() with parameters.
  await sql`${sql.raw(ONE_MESSAGE)} set local role ${sql.raw(role)};
    set local laurel.tenant_id = ${sql.lit(tenantId)};
    set local laurel.project_ids = ${sql.lit(`{${projectIds.join(",")}}`)}`.execute(db);
};

/**
 * Makes the one way to change the database: forks the EntityManager, begins, runs, flushes, writes the
 * outbox, commits, then rings. A transact inside a transact is a bug (with one connection it would wait for
 * itself) and asserts. What throws `Unprepared` is undone and run again when that is prepared.
 */
export const createTransact = (parts: TransactParts, sight?: Sight): Transact => {
  const once = transactOnce(parts, sight);
  const lanes = parts.lanes ?? createLanes();
  const transact: Transact = async (run) => {
    const turns = new Turns(lanes);
    try {
      for (;;) {
        try {
          return await once(turns, run);
        } catch (error) {
          if (!(error instanceof Unprepared)) throw error;
          turns.undone++;
          await error.prepare(transact);
        }
      }
    } finally {
      turns.release();
    }
  };
  return transact;
};

const transactOnce =
  ({ em, clock, doorbell, onError }: TransactParts, sight?: Sight) =>
  async <T>(turns: Turns, run: (work: Work) => Promise<T>): Promise<T> => {
    assert(!isTransacting(), "transact() inside transact()");
    const afterCommit: (() => void)[] = [];
    const emitted: OutboxRow[] = [];
    const rung = new Set<number>();
    const rungEvents = new Set<number>();
    const result = await open.run(true, () =>
      em.fork().transactional(async (tx) => {
        const txEm = tx;
        const work: Work = {
          em: txEm,
          db: txEm.getKysely(),
          now: clock(),
          by: sight?.by,
          turns,
          emit: (projectId, type, data, options = {}) =>
            void emitted.push(outboxRow(projectId, type, data, options)),
          ring: (parts) => {
            for (const part of parts) rung.add(part);
          },
          ringEvents: (parts) => {
            for (const part of parts) rungEvents.add(part);
          },
          ringJobs: () => void afterCommit.push(doorbell.jobs),
          ringWebhooks: (ids) => void afterCommit.push(() => doorbell.webhooks(ids)),
          afterCommit: (callback) => void afterCommit.push(callback),
        };
        if (sight) await enter(work.db, sight);
        const value = await run(work);
        await txEm.flush();
        if (emitted.length > 0) {
          await writeOutbox(work, emitted);
          work.ring(emitted.map(outboxPart));
        }
        return value;
      }),
    );
    if (rung.size > 0) afterCommit.push(() => doorbell.outbox(rung));
    if (rungEvents.size > 0) afterCommit.push(() => doorbell.events(rungEvents));
    for (const callback of afterCommit) {
      try {
        callback();
      } catch (error) {
        onError(error);
      }
    }
    return result;
  };

export const outboxRow = (
  projectId: string,
  type: string,
  data: unknown,
  options: EmitOptions = {},
): OutboxRow => ({
  id: options.id ?? newId(),
  projectId,
  type,
  playerId: options.playerId ?? null,
  playerSeq: options.playerSeq ?? null,
  eventId: options.eventId ?? null,
  data,
});

/** A player's rows share a partition, so that one relay sends them in order. */
export const outboxPart = (row: Pick<OutboxRow, "playerId" | "projectId">): number =>
  fnv1a(row.playerId ?? row.projectId) % OUTBOX_PARTITIONS;

export type OutboxQueueRow = { project_id: string; part: number; ids: string[] };

/** The queue rows that announce `rows`: one for each project and partition, ids in order. */
export const outboxQueueRows = (rows: readonly OutboxRow[]): OutboxQueueRow[] => {
  const byPart = new Map<string, OutboxQueueRow>();
  for (const row of rows) {
    const part = outboxPart(row);
    const key = `${row.projectId}:${part}`;
    const queued = byPart.get(key);
    if (queued) queued.ids.push(row.id);
    else byPart.set(key, { project_id: row.projectId, part, ids: [row.id] });
  }
  return [...byPart.values()];
};

/**
 * Transacts that join a transaction in progress, for what must share one commit with what comes after it. Its
 * functions see one another's changes, and a throw of any undoes all. `outer` is the sight of `work`.
 */
export const joining =
  (work: Work, outer: Sight): TransactAs =>
  (sight) =>
  async (run) => {
    const isOther = sight !== outer;
    if (isOther) await enter(work.db, sight);
    const value = await run({ ...work, by: sight.by });
    await work.em.flush();
    if (isOther) await enter(work.db, outer);
    return value;
  };

/** Writes outbox rows and their queue rows in one statement. */
const writeOutbox = async ({ db, now }: Work, rows: readonly OutboxRow[]): Promise<void> => {
  const queue = outboxQueueRows(rows).map((row) => ({ ...row, ids: `{${row.ids.join(",")}}` }));
  await sql`
    ${sql.raw(UNANSWERED + KEPT)} with o as (
      insert into outbox (project_id, id, type, player_id, player_seq, event_id, data, created_at)
      select r."projectId", r.id, r.type, r."playerId", r."playerSeq",
        r."eventId", r.data, ${now.toISOString()}::timestamptz
      from json_to_recordset(${JSON.stringify(rows)}::json)
        as r("projectId" uuid, id uuid, type text, "playerId" uuid, "playerSeq" bigint,
          "eventId" uuid, data jsonb))
    insert into outbox_q (project_id, part, outbox_ids)
    select q.project_id, q.part, q.ids::uuid[]
    from json_to_recordset(${JSON.stringify(queue)}::json)
      as q(project_id uuid, part smallint, ids text)`.execute(db);
};

/**
 * Runs `run` under a savepoint: a throw undoes only what it did. MikroORM's own nested transaction would fork
 * the identity map; this one is plain SQL for the batch path.
 */
export const savepoint = async <T>({ db }: Work, run: () => Promise<T>): Promise<T> => {
  await sql`${sql.raw(UNANSWERED)} savepoint laurel`.execute(db);
  try {
    const value = await run();
    await sql`release savepoint laurel`.execute(db);
    return value;
  } catch (error) {
    await sql`rollback to savepoint laurel`.execute(db);
    // Else an outer one of this name would take it for its own.
    await sql`release savepoint laurel`.execute(db);
    throw error;
  }
};
