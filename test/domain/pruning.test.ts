import assert from "node:assert/strict";
import { sql } from "kysely";
import { DEFAULT_SETTINGS } from "../../src/domain/evaluation/project-settings.ts";
import { newId } from "../../src/domain/kernel/ids.ts";
import { monthOf, monthStart } from "../../src/domain/kernel/work.ts";
import { limitedKey } from "../../src/domain/evaluation/rewards/shared-keys.ts";
import {
  compileBudgets,
  compileSharedLimits,
  type LimitWindow,
} from "../../src/domain/evaluation/running/budgets.ts";
import { pruneEnded } from "../../src/jobs/sweeps.ts";
import { aTenant, startApp } from "../support/app/app.ts";
import { madeOnce } from "../support/made.ts";

const DAY_MS = 86_400_000;
const NO_LIMITS = { perPlayer: [], global: [], budgets: [] };

describe("pruning", () => {
  const api = madeOnce(startApp);

  const at = (msAgo: number): string => new Date(Date.now() - msAgo).toISOString();
  const run = (statement: ReturnType<typeof sql>) => api.app.transact(({ db }) => statement.execute(db));
  const idsOf = async (table: string, column: string, ids: readonly string[]): Promise<string[]> => {
    const list = `{${ids.join(",")}}`;
    const { rows } = await run(sql`
      select ${sql.ref(column)}::text as id from ${sql.ref(table)}
      where ${sql.ref(column)}::text = any(${list}::text[])`);
    return rows.map((row) => (row as { id: string }).id);
  };
  /** Adds a row that is over and one that is not quite, and tells which of the two a run has left. */
  const left = async (
    [table, column]: [string, string],
    add: (id: string, msAgo: number) => ReturnType<typeof sql>,
    keptMs: number,
  ): Promise<string> => {
    const [over, kept] = [newId(), newId()];
    await run(add(over, keptMs + 60_000));
    await run(add(kept, keptMs - 60_000));
    await pruneEnded.run(api.app, "*");
    const ids = await idsOf(table, column, [over, kept]);
    return `${ids.includes(over) ? "over " : ""}${ids.includes(kept) ? "kept" : ""}`;
  };

  it("deletes blocks and ids once they have ended", async () => {
    let host = 0;
    const block = (id: string, msAgo: number) => {
      host += 1;
      return sql`insert into ip_blocks (id, network, reason, source, created_by, expires_at, created_at)
        values (${id}::uuid, ${`198.51.100.${host}/32`}::cidr, 'x', 'AUTO', 'system',
          ${at(msAgo)}::timestamptz, now())`;
    };
    assert.equal(await left(["ip_blocks", "id"], block, 0), "kept");
    const consumed = (id: string, msAgo: number) =>
      sql`insert into consumed_ids (kind, id, expires_at) values ('test', ${id}, ${at(msAgo)}::timestamptz)`;
    assert.equal(await left(["consumed_ids", "id"], consumed, 0), "kept");
  });

  it("deletes traces once their days are over", async () => {
    const trace = (id: string, msAgo: number) =>
      sql`insert into event_traces (project_id, event_id, trace, expires_at)
        values (${newId()}::uuid, ${id}::uuid, '{}', ${at(msAgo)}::timestamptz)`;
    assert.equal(await left(["event_traces", "event_id"], trace, 0), "kept");
  });

  it("keeps the usage of two years", async () => {
    const { tenantId } = await aTenant(api);
    const months = [24, 25].map((ago) => monthOf(monthStart(new Date(), -ago)));
    for (const month of months)
      await run(sql`
        insert into usage_counters (tenant_id, month, slot) values (${tenantId}::uuid, ${month}::int, 0)`);
    await pruneEnded.run(api.app, "*");
    const { rows } = await run(sql`select month from usage_counters where tenant_id = ${tenantId}::uuid`);
    assert.deepEqual(rows, [{ month: months[0] }]);
  });

  it("keeps a block without end", async () => {
    const id = newId();
    await run(sql`insert into ip_blocks (id, network, reason, source, created_by, created_at)
      values (${id}::uuid, '198.51.100.200/32', 'x', 'MANUAL', 'system', now() - interval '9 years')`);
    await pruneEnded.run(api.app, "*");
    assert.deepEqual(await idsOf("ip_blocks", "id", [id]), [id]);
  });

  it("keeps links of mails for a week, request keys for a day, sessions for thirty days", async () => {
    const { tenantId, userId } = await aTenant(api);
    const link = (id: string, msAgo: number) =>
      sql`insert into user_tokens (hash, tenant_id, user_id, purpose, email, expires_at, created_at)
        values (${id}, ${tenantId}::uuid, ${userId}::uuid, 'RESET_PASSWORD', 'a@b.example',
          ${at(msAgo)}::timestamptz, now())`;
    assert.equal(await left(["user_tokens", "hash"], link, 7 * DAY_MS), "kept");
    const key = (id: string, msAgo: number) =>
      sql`insert into idempotency_keys (scope, key, fingerprint, status, body, created_at)
        values ('test', ${id}, 'x', 200, 'x', ${at(msAgo)}::timestamptz)`;
    assert.equal(await left(["idempotency_keys", "key"], key, DAY_MS), "kept");
    for (const isRevoked of [true, false]) {
      const session = (id: string, msAgo: number) => {
        const ended = at(msAgo);
        const [expiresAt, revokedAt] = isRevoked ? [at(-DAY_MS), ended] : [ended, null];
        return sql`insert into sessions (id, tenant_id, user_id, method, ip, user_agent, created_at,
            last_used_at, expires_at, revoked_at)
          values (${id}::uuid, ${tenantId}::uuid, ${userId}::uuid, 'PASSWORD', '', '', now(), now(),
            ${expiresAt}::timestamptz, ${revokedAt}::timestamptz)`;
      };
      assert.equal(await left(["sessions", "id"], session, 30 * DAY_MS), "kept", String(isRevoked));
    }
  });

  it("forgets the texts of failed mails and refusals of addresses once their time is over", async () => {
    const mail = (id: string, msAgo: number) => sql`
      with log as (
        insert into email_logs (id, "to", template, subject, status, created_at)
        values (${id}::uuid, 'a@b.example', 'verify-email', 'x', 'FAILED', now()) returning id)
      insert into email_outbox (log_id, payload, next_attempt_at, keep_until)
      select id, 'x', now(), ${at(msAgo)}::timestamptz from log`;
    assert.equal(await left(["email_outbox", "log_id"], mail, 0), "kept");
    const refusal = (id: string, msAgo: number) =>
      sql`insert into email_suppressions (email, reason, expires_at, created_at)
        values (${id}, 'x', ${at(msAgo)}::timestamptz, now())`;
    assert.equal(await left(["email_suppressions", "email"], refusal, 0), "kept");
  });

  /** Adds what should stay and what should go, by id, and tells which a run has left. */
  const leftOf = async (
    [table, column]: [string, string],
    adds: Record<string, (id: string) => ReturnType<typeof sql>>,
  ): Promise<string[]> => {
    const ids = new Map(Object.keys(adds).map((name) => [name, newId()]));
    for (const [name, add] of Object.entries(adds)) await run(add(ids.get(name)!));
    await pruneEnded.run(api.app, "*");
    const found = await idsOf(table, column, [...ids.values()]);
    return [...ids].flatMap(([name, id]) => (found.includes(id) ? [name] : []));
  };

  it("keeps jobs for thirty days, and those that others ask for", async () => {
    const job =
      (kind: string, status: string, { ageMs = 31 * DAY_MS, state = {} } = {}) =>
      (id: string) =>
        sql`insert into project_jobs (project_id, id, kind, status, params, state, created_by, created_at,
            updated_at, finished_at, due_at)
          values (${newId()}::uuid, ${id}::uuid, ${kind}, ${status}, '{}', ${JSON.stringify(state)}::jsonb,
            'x', ${at(ageMs)}::timestamptz, now(), ${at(ageMs)}::timestamptz, '2126-01-01')`;
    assert.equal(
      await left(
        ["project_jobs", "id"],
        (id, ageMs) => job("BULK_GRANT", "FAILED", { ageMs })(id),
        30 * DAY_MS,
      ),
      "kept",
    );
    const open = (id: string) =>
      sql`insert into project_jobs (project_id, id, kind, status, params, created_by, created_at, updated_at,
          due_at)
        values (${newId()}::uuid, ${id}::uuid, 'BULK_GRANT', 'QUEUED', '{}', 'x', '2020-01-01', '2020-01-01',
          '2126-01-01')`;
    const jobs = {
      "a backfill that succeeded": job("BACKFILL", "SUCCEEDED"),
      "a backfill that failed": job("BACKFILL", "FAILED"),
      "an erasure that was given up": job("PLAYER_ERASE", "CANCELLED", { state: { phase: "LEDGER" } }),
      "an erasure that is done": job("PLAYER_ERASE", "SUCCEEDED"),
      "one that waits": open,
    };
    assert.deepEqual(await leftOf(["project_jobs", "id"], jobs), [
      "a backfill that succeeded",
      "an erasure that was given up",
      "one that waits",
    ]);
  });

  it("keeps what limits of calendar windows have counted until no event asks for it", async () => {
    const projectId = newId();
    /** The row that a limit or budget of such a window has counted in, at a time. */
    const counter =
      (window: LimitWindow, msAgo: number, touchedAgo = msAgo) =>
      (id: string) => {
        const limits = {
          ...NO_LIMITS,
          global: [{ max: 1, window }],
          budgets: [{ asset: "xp", max: 1, window }],
        };
        const all = [...compileSharedLimits(`rule:${id}`, limits), ...compileBudgets(`~rule:${id}`, limits)];
        const keys = all.map(({ keyOf }) =>
          keyOf({ projectId, timezone: "UTC", settings: DEFAULT_SETTINGS }, Date.now() - msAgo),
        );
        return sql`insert into shared_counters (project_id, scope, window_no, touched_at)
          select p, s, w, ${at(touchedAgo)}::timestamptz from json_to_recordset(${JSON.stringify(
            keys.map(({ scope, windowNo }) => ({ p: projectId, s: scope, w: windowNo })),
          )}::json) as x(p uuid, s text, w bigint)`;
      };
    const limited = (kind: "badge" | "reward") => (id: string) => {
      const { scope, windowNo } = limitedKey(projectId, kind, `${id}:DAY`);
      return sql`insert into shared_counters (project_id, scope, window_no, touched_at)
        values (${projectId}::uuid, ${scope}, ${windowNo}, '2020-01-01')`;
    };
    const adds = {
      "old day": counter("DAY", 72 * DAY_MS),
      day: counter("DAY", 69 * DAY_MS),
      "old day that an import asks for": counter("DAY", 900 * DAY_MS, DAY_MS),
      "old week": counter("WEEK", 408 * DAY_MS),
      week: counter("WEEK", 399 * DAY_MS),
      "old month": counter("MONTH", 432 * DAY_MS),
      month: counter("MONTH", 399 * DAY_MS),
      lifetime: counter("LIFETIME", 900 * DAY_MS),
      rolling: counter({ rollingSeconds: 60 }, 900 * DAY_MS),
      badge: limited("badge"),
      reward: limited("reward"),
    };
    const ids = new Map(Object.keys(adds).map((name) => [name, newId()]));
    for (const [name, add] of Object.entries(adds)) await run(add(ids.get(name)!));
    await pruneEnded.run(api.app, "*");
    const { rows } = await run(sql`
      select substring(scope from '[0-9a-f-]{36}') as id, count(*)::int as n from shared_counters
      where project_id = ${projectId} group by 1`);
    const counts = new Map((rows as { id: string; n: number }[]).map(({ id, n }) => [id, n]));
    const seen = [...ids].map(([name, id]) => [name, counts.get(id) ?? 0]);
    const expected = Object.keys(adds).map((name) => [
      name,
      name === "badge" || name === "reward" ? 1 : /^old (day|week|month)$/.test(name) ? 0 : 2,
    ]);
    assert.deepEqual(seen, expected);
  });

  it("keeps counts of rules for four hundred days", async () => {
    const stats = (id: string, msAgo: number) =>
      sql`insert into rule_stats
          (project_id, rule_id, hour, evaluated, fired, reasons, leaf_fails, cost, micros)
        values (${newId()}::uuid, ${id}::uuid, ${at(msAgo)}::timestamptz, 1, 1, '{}', '[]', '{}', '[]')`;
    assert.equal(await left(["rule_stats", "rule_id"], stats, 400 * DAY_MS), "kept");
  });
});
