import { type RawBuilder, sql } from "kysely";
import type { Database } from "../../../src/platform/database.ts";
import { eventually } from "../eventually.ts";
import type { Supervised } from "./supervised.ts";

type Who = "WORKER" | "HOLDER";
type Executor = Parameters<RawBuilder<unknown>["execute"]>[0];

/**
 * Ends connections, and waits until they are gone from the queue of a lock: one that waits there does not
 * notice that its client is gone.
 */
export const endBackends = async (db: Executor, pids: readonly number[]): Promise<void> => {
  for (const pid of pids) await sql`select pg_terminate_backend(${pid}, 20000)`.execute(db);
};

/**
 * Holds the lock of the ledger, so that no step of a job can be saved, and passes it on to let one step after
 * another through.
 */
export const holdLedger = async (database: Database) => {
  const db = database.em.fork().getKysely();
  const hold = async () => {
    const holder = await db.startTransaction().execute();
    await sql`lock table ledger_entries in exclusive mode`.execute(holder);
    return holder;
  };
  /** Connections that wait for the lock: those of workers, or of the next holder. */
  const waitingPids = async (who: Who): Promise<number[]> => {
    const { rows } = await sql<{ pid: number; mode: string }>`
      select pid, mode from pg_locks
      where relation = 'ledger_entries'::regclass and not granted`.execute(db);
    return rows.filter(({ mode }) => (mode === "ExclusiveLock") === (who === "HOLDER")).map(({ pid }) => pid);
  };
  const someWaiting = (who: Who): Promise<number[]> =>
    eventually(
      async () => {
        const found = await waitingPids(who);
        return found.length > 0 && found;
      },
      { timeoutMs: 60_000, label: `${who} waits for the lock` },
    );
  let holder = await hold();
  return {
    /** Waits until a worker wants to save a step of a job, and kills it there. */
    killAtSave: async (worker: Supervised, jobId: string): Promise<void> => {
      const pids = await someWaiting("WORKER");
      await worker.kill();
      await endBackends(db, pids);
      // The lease of the step, whose process has died.
      await sql`update project_jobs set due_at = now() where id = ${jobId}`.execute(db);
    },
    someWaiting,
    /** Lets one step be saved: the next holder waits behind it, and it is saved between the two. */
    letOneThrough: async (): Promise<void> => {
      const next = hold();
      await someWaiting("HOLDER");
      await holder.rollback().execute();
      holder = await next;
    },
    release: async (): Promise<void> => {
      await holder.rollback().execute();
    },
  };
};
