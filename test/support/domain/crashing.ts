import { type RawBuilder, sql } from "kysely";
import assert from "node:assert/strict";
import type { SqlEntityManager } from "@mikro-orm/sql";
import type { Database } from "../../../src/platform/database.ts";
import { type Domain, engineOf } from "./domain.ts";
import type { Json } from "../../../src/domain/kernel/events/events.ts";
import { compileMetric, Metric } from "../../../src/domain/evaluation/metrics/compile.ts";
import { foldEvents } from "../../../src/domain/evaluation/metrics/count.ts";
import { type JobKind, queueJob } from "../../../src/domain/long-work/project-jobs.ts";
import { JobSteps } from "../../../src/domain/long-work/step-job.ts";
import { JOB_KINDS } from "../../../src/domain/registries/jobs/kinds.ts";
import { aPlan, aPlayerState } from "../rules/plan.ts";
import { DEFAULT_CURVE, type LevelCurve, levelOf } from "../../../src/domain/evaluation/xp/levels.ts";
import { requeueDueEvents } from "../../../src/domain/progression/queue.ts";
import { lineCause } from "../../../src/domain/progression/save.ts";

type Query = (text: string, ...rest: unknown[]) => Promise<{ rows: unknown[] }>;

/** What a statement throws where the process would have died. */
class Crash extends Error {}

export type Crashing = {
  /**
   * Runs `run` and lets its transaction die at its `at`-th statement, before it or after it: nothing of it is
   * committed. @returns whether it died; false when it has fewer statements and went through
   */
  crashAt(at: number, isAfter: boolean, run: () => Promise<unknown>): Promise<boolean>;
};

/** Makes transactions of an embedded database die at a statement of the test's choosing. */
export const makeCrashing = async (database: Database): Promise<Crashing> => {
  const engine = await engineOf(database);
  const transaction = engine.transaction.bind(engine);
  let left = Infinity;
  let dieAfter = false;
  let hasCrashed = false;
  const die = (): never => {
    hasCrashed = true;
    throw new Crash("the process dies here");
  };
  const watched = (query: Query): Query => {
    return async (text, ...rest) => {
      // The dead say nothing more, also not to savepoints.
      if (hasCrashed || (--left === 0 && !dieAfter)) die();
      const result = await query(text, ...rest);
      if (left === 0 && dieAfter) die();
      return result;
    };
  };
  engine.transaction = (run) =>
    transaction((tx) => {
      tx.query = watched(tx.query.bind(tx));
      return run(tx);
    });
  return {
    crashAt: async (at, isAfter, run) => {
      [left, dieAfter, hasCrashed] = [at, isAfter, false];
      try {
        await run();
      } catch (error) {
        if (!hasCrashed) throw error;
      } finally {
        left = Infinity;
      }
      const died = hasCrashed;
      hasCrashed = false;
      return died;
    },
  };
};

/**
 * Processes what a process that died has left, as others do when it has not answered for a while, and after that
 * the event that it was evaluating alone, which has one try less.
 */
export const processLeft = async (domain: Domain): Promise<void> => {
  await domain.process();
  await domain.sql`update event_claims set asked_at = asked_at - interval '1 minute'`;
  await domain.process();
  await domain.transact(async (work) => {
    await sql`update event_due set due_at = ${work.now.toISOString()} where attempts > 0`.execute(work.db);
    await requeueDueEvents(work);
  });
  await domain.process();
};

const fail = (error: unknown): never => assert.fail(String(error));

/** Queues a job and does its steps, with `between` after each one. */
export const runJob = async (
  { transact }: Domain,
  projectId: string,
  job: { kind: JobKind; params: Json; between?: () => Promise<unknown> },
): Promise<{ result: Json; steps: number }> => {
  const { kind, params, between } = job;
  const { id } = await transact((work) => queueJob(work, projectId, { kind, params, createdBy: "test" }));
  let steps = 0;
  const jobs = new JobSteps({ transact, kinds: JOB_KINDS, onError: fail });
  while (await jobs.step()) {
    steps++;
    await between?.();
  }
  const { rows } = await transact(({ db }) =>
    sql<{ result: Json; status: string }>`
      select result, status from project_jobs where project_id = ${projectId} and id = ${id}`.execute(db),
  );
  assert.equal(rows[0]?.status, "SUCCEEDED");
  return { result: rows[0].result, steps };
};

/** A counter of each player as it is kept, by external id. */
export const countersIn = async (
  { transact }: Domain,
  projectId: string,
  metric: Json,
): Promise<Record<string, unknown>> => {
  const { id } = compileMetric(Metric.parse(metric));
  const { rows } = await transact(({ db }) =>
    sql<{ u: string; c: unknown }>`
      select p.external_user_id as u, s.doc->'c'->${id} as c from players p
      left join player_states s on s.project_id = p.project_id and s.player_id = p.id
      where p.project_id = ${projectId}`.execute(db),
  );
  return Object.fromEntries(rows.map(({ u, c }) => [u, c ?? undefined]));
};

/** What each player's stored events come to, counted apart from any processing. */
export const countersOfEvents = async (
  { transact }: Domain,
  projectId: string,
  document: Json,
): Promise<Record<string, unknown>> => {
  const metric = compileMetric(Metric.parse(document));
  const { rows } = await transact(({ db }) =>
    sql<{ u: string; t: string; p: Json; at: Date }>`
      select external_user_id as u, event_type as t, properties as p,
        least(occurred_at, received_at) as at from tracked_events
      where project_id = ${projectId} order by id`.execute(db),
  );
  const whose = { player: aPlayerState(), project: aPlan() };
  const counters: Record<string, unknown> = {};
  for (const { u, t, p, at } of rows) {
    const event = { type: t, at: at.getTime(), properties: p };
    counters[u] = foldEvents(metric, whose, [event], { state: counters[u] as never });
  }
  return counters;
};

const count = async (em: SqlEntityManager, query: RawBuilder<{ n: number }>): Promise<number> =>
  (await query.execute(em.fork().getKysely())).rows[0]!.n;

/**
 * Holds a whole database, at rest, against what must always be true of it.
 * @param curve the level curve of its players
 */
export const assertInvariants = async (
  em: SqlEntityManager,
  curve: LevelCurve = DEFAULT_CURVE,
): Promise<void> => {
  const zero = async (what: string, query: RawBuilder<{ n: number }>) =>
    assert.equal(await count(em, query), 0, what);
  await zero("events left in the queue", sql`select count(*) as n from event_q`);
  await zero("events left for a retry", sql`select count(*) as n from event_due`);
  await zero("failed events", sql`select count(*) as n from event_results where status = 'FAILED'`);
  await zero("commits left in the outbox queue", sql`select count(*) as n from outbox_q`);
  await zero(
    "players whose XP or ledger_seq is not what their ledger says, or whose ledger has gaps",
    sql`select count(*) as n from players p left join (
      select project_id, player_id, sum(amount) filter (where asset = 'XP') as xp, count(*) as n,
        max(seq) as last from ledger_entries group by 1, 2) l
          on l.project_id = p.project_id and l.player_id = p.id
      where (p.xp, p.ledger_seq, p.ledger_seq) <> (coalesce(l.xp, 0), coalesce(l.n, 0), coalesce(l.last, 0))`,
  );
  await zero(
    "channels whose messages are not numbered 1 to the last",
    sql`select count(*) as n from chat_channels c where last_seq <> (
        select count(*) from chat_messages m where m.project_id = c.project_id and m.channel_id = c.id)
      or last_seq <> (select coalesce(max(seq), 0) from chat_messages m
        where m.project_id = c.project_id and m.channel_id = c.id)`,
  );
  await zero(
    "players whose stream has gaps, or who were not announced exactly once",
    sql`select count(*) as n from players p left join (
      select project_id, player_id, sum(coalesce(lines, 1)) as n,
        min(player_seq - coalesce(lines, 1) + 1) as first, max(player_seq) as last,
        count(*) filter (where type = 'player.created') as created
      from outbox where player_seq is not null group by 1, 2) o
        on o.project_id = p.project_id and o.player_id = p.id
      where (p.seq, p.seq, 1, 1) <>
        (coalesce(o.n, 0), coalesce(o.last, 0), coalesce(o.first, 0), coalesce(o.created, 0))`,
  );
  await zero(
    "gains of XP in the ledger that did not make exactly one player.xp_granted",
    sql`select count(*) as n from (
      select id::text as id from ledger_entries where asset = 'XP' and amount > 0) l
      full join (select data->>'ledgerEntryId' as id, count(*) as n from outbox
        where type = 'player.xp_granted' group by 1) o on o.id = l.id
      where o.n is distinct from 1 or l.id is null`,
  );
  await zero(
    "balances that are not what their ledger says, or hold what no open hold holds",
    sql`select count(*) as n from player_balances b left join (
      select project_id, player_id, currency_key, sum(amount) as total
      from ledger_entries where asset = 'CURRENCY' group by 1, 2, 3) l
        using (project_id, player_id, currency_key)
      left join (select project_id, player_id, currency_key, sum(amount) as held
      from currency_holds where status = 'HELD' group by 1, 2, 3) h
        using (project_id, player_id, currency_key)
      where (b.balance, b.held) <> (coalesce(l.total, 0), coalesce(h.held, 0))`,
  );
  await assertExecutions(zero);
  await assertLevels(em, curve);
};

type Zero = (what: string, query: RawBuilder<{ n: number }>) => Promise<void>;

/** What rules have done is written down, once, and no shared counter has counted more than that. */
const assertExecutions = async (zero: Zero): Promise<void> => {
  await zero(
    "ledger entries of a rule whose firing was not recorded",
    sql`select count(*) as n from ledger_entries l
      where l.idempotency_key like 'evt:%:r:%' and not exists (
        select from rule_executions e where e.project_id = l.project_id and e.mode = 'LIVE'
          and e.rule_id = (l.cause->>'ruleId')::uuid and e.player_id = l.player_id
          and e.event_id = ((${lineCause("l")})->>'rootEventId')::uuid)`,
  );
  await zero(
    "rules that fired more often for one event than they may",
    sql`select count(*) as n from (
      select e.project_id, e.rule_id, e.event_id, count(*) as times,
        bool_or((v.definition->>'reentrant')::boolean) as is_reentrant
      from rule_executions e
      join rule_versions v on v.rule_id = e.rule_id and v.version = e.rule_version
      group by 1, 2, 3) f where times > case when is_reentrant then 10 else 1 end`,
  );
  await zero(
    "counters over all players that are above what was recorded",
    sql`select count(*) as n from shared_counters c
      where c.scope ~ '^rule:.*:g:LIFETIME$' and c.used > (
        select count(*) from rule_executions e where e.project_id = c.project_id and e.mode = 'LIVE'
          and e.rule_id = split_part(c.scope, ':', 2)::uuid)`,
  );
};

const assertLevels = async (em: SqlEntityManager, curve: LevelCurve): Promise<void> => {
  const rows = await sql<{
    xp: number;
    level: number;
  }>`select distinct xp, level from players`.execute(em.fork().getKysely());
  for (const { xp, level } of rows.rows) assert.equal(level, levelOf(curve, xp), `level at ${xp} XP`);
};

/** [externalUserId, xp] of every player, sorted. */
export const readXp = async (em: SqlEntityManager): Promise<(readonly [string, number])[]> => {
  const found = await sql<{ u: string; xp: number }>`
    select external_user_id as u, xp from players`.execute(em.fork().getKysely());
  return found.rows.map(({ u, xp }) => [u, xp] as const).toSorted();
};
