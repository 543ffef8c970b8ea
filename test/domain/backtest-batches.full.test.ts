import assert from "node:assert/strict";
import * as fc from "fast-check";
import { sql } from "kysely";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { RuleDocument } from "../../src/domain/evaluation/language/document.ts";
import { backtest, backtestParams, BacktestRequest } from "../../src/domain/rules/insight/backtest.ts";
import { createRule } from "../../src/domain/rules/rules.ts";
import { runJob } from "../support/domain/crashing.ts";
import { memoryDomain } from "../support/domain/domain.ts";
import { cases } from "../support/properties.ts";
import { fnv1a, NIL_ID } from "../../src/domain/kernel/ids.ts";
import { compileRules } from "../../src/domain/evaluation/running/compile.ts";
import { readPlayersPage } from "../../src/domain/progression/load.ts";
import { loadStates } from "../../src/domain/progression/load-states.ts";
import { loadPlan } from "../../src/domain/progression/plan.ts";
import { replay, resultOf, startOf } from "../../src/domain/rules/insight/history.ts";
import type { Work } from "../../src/domain/kernel/work.ts";

type Params = Awaited<ReturnType<typeof backtestParams>>;
type Row = { id: string; event_type: string; properties: Json; at: Date };

/** A player's processed events within the span, as a plain query by the player's names. */
const historyOf = async (work: Work, projectId: string, playerId: string, { from, to }: Params) => {
  const { rows } = await sql<Row>`
    select id, event_type, properties, least(occurred_at, received_at) as at from tracked_events e
    where project_id = ${projectId}
      and occurred_at >= ${from}::timestamptz and occurred_at < ${to}::timestamptz
      and external_user_id in (select external_user_id from players
        where project_id = ${projectId} and (id = ${playerId} or merged_into = ${playerId}))
      and id not in (select event_id from event_q where project_id = ${projectId})
      and id not in (select event_id from event_results where project_id = ${projectId})
    order by id`.execute(work.db);
  return rows;
};

/** What a backtest comes to, by reading and replaying one player after the other in one go. */
const referenceBacktest = async (work: Work, projectId: string, params: Params): Promise<Json> => {
  const { ruleId: id, ruleKey: key, version, definition, sampleRate, from, to } = params;
  const rules = compileRules([{ id, key, version, createdAt: work.now, definition }]);
  const plan = (await loadPlan(work, projectId, rules))!;
  const run = startOf(plan, undefined);
  for (const player of await readPlayersPage(work, projectId, { after: NIL_ID }, 10_000)) {
    if (fnv1a(`backtest${player.id}`) % 10_000 >= sampleRate * 10_000) continue;
    await loadStates(work, [player], [plan]);
    const one = run.player(player);
    for (const row of await historyOf(work, projectId, player.id, params)) {
      const { event_type: type, properties } = row;
      replay(run, one, { id: row.id, type, at: row.at.getTime(), properties });
    }
    one.end();
  }
  return { ruleId: id, ruleKey: key, version, from, to, sampleRate, ...resultOf(run) };
};

const DAY_MS = 86_400_000;
const FIRST_MS = Date.UTC(2026, 5, 1);

/** A rule whose firings depend on the order of events and, by its global limits, on that of players. */
const RULE = {
  key: "third",
  name: "From the third goal on",
  triggers: [{ kind: "EVENT", eventTypes: ["goal"] }],
  conditions: {
    all: [
      { type: "event_property", path: "n", op: "gte", value: 2 },
      {
        type: "event_aggregate",
        metric: { eventTypes: ["goal"], aggregate: "count" },
        op: "gte",
        value: 3,
      },
    ],
  },
  actions: [{ type: "grant_xp", amount: { $ref: "event.properties.n" } }],
  limits: {
    perPlayer: [{ max: 20, window: "DAY" }],
    global: [
      { max: 100, window: "DAY" },
      { max: 700, window: "LIFETIME" },
    ],
  },
};

/** Numbers of events around what one statement reads. */
const LONG = [49, 50, 51, 1_999, 2_000, 2_001, 4_100];

type Users = readonly { events: number; mergedInto?: number | undefined }[];

const users = fc
  .tuple(
    fc.array(fc.record({ events: fc.integer({ min: 0, max: 4 }) }), { minLength: 1, maxLength: 230 }),
    fc.array(
      fc.record({ events: fc.constantFrom(...LONG), mergedInto: fc.option(fc.nat(9), { nil: undefined }) }),
      { maxLength: 3 },
    ),
    fc.nat(230),
  )
  .map(([few, long, place]): Users => [...few.slice(0, place), ...long, ...few.slice(place)]);

/** How long a rule took, and the ids of what it would have written, are different each time. */
const textOf = (result: Json): string =>
  JSON.stringify(result, (key, value: unknown) =>
    key === "micros" || key === "ledgerEntryId" ? null : value,
  );

describe("a backtest of many players", () => {
  const { domain } = memoryDomain();

  const query = (statement: ReturnType<typeof sql>): Promise<unknown> =>
    domain.transact(({ db }) => statement.execute(db));

  /** Players with processed events, a few of which were rejected or wait. */
  const aProject = async (given: Users): Promise<string> => {
    const projectId = await domain.addProject();
    await domain.transact((work) => createRule(work, projectId, RuleDocument.parse(RULE), "test"));
    await query(sql`
      insert into players (project_id, id, external_user_id, created_at, updated_at)
      select ${projectId}::uuid, md5(${projectId}::text || i)::uuid, 'u' || i, now(), now()
      from generate_series(0, ${given.length - 1}::int) as i`);
    const rows = JSON.stringify(
      given.map(({ events, mergedInto = null }, i) => ({ i, n: events, m: mergedInto })),
    );
    await query(sql`
      update players p set merged_into = t.id, status = 'MERGED'
      from json_to_recordset(${rows}::json) as r(i int, n int, m int)
      join players t on t.project_id = ${projectId} and t.external_user_id = 'u' || r.m and r.m <> r.i
        and r.m < (select count(*) from players where project_id = ${projectId})
      where p.project_id = ${projectId} and p.external_user_id = 'u' || r.i
        and not exists (select from json_to_recordset(${rows}::json) as x(i int, m int)
          where x.i = r.m and x.m is not null)`);
    await query(sql`
      insert into tracked_events (project_id, id, external_user_id, event_type, properties, occurred_at,
        received_at)
      select ${projectId}::uuid, ('00000000-0000-7000-8000-' || lpad(to_hex(k * 1000 + r.i), 12, '0'))::uuid,
        'u' || r.i, case when (k + r.i) % 5 = 4 then 'other' else 'goal' end,
        jsonb_build_object('n', (k * 7 + r.i) % 5), ${new Date(FIRST_MS).toISOString()}::timestamptz
          + make_interval(hours => (k * 11 + r.i) % 96), now()
      from json_to_recordset(${rows}::json) as r(i int, n int) cross join generate_series(1, r.n) as k`);
    await query(sql`
      insert into event_results (project_id, event_id, status, error, attempts, processed_at)
      select project_id, id, 'REJECTED', 'test', 1, now() from tracked_events
      where project_id = ${projectId} and hashtext(id::text) % 9 = 0`);
    await query(sql`
      insert into event_q (project_id, part, event_id) select project_id, 0, id from tracked_events
      where project_id = ${projectId} and hashtext(id::text) % 9 = 1`);
    return projectId;
  };

  const paramsOf = (projectId: string, request: Json = {}) =>
    domain.transact((work) =>
      backtestParams(
        work,
        projectId,
        "third",
        BacktestRequest.parse({
          from: new Date(FIRST_MS).toISOString(),
          to: new Date(FIRST_MS + 3 * DAY_MS).toISOString(),
          ...request,
        }),
      ),
    );

  it("comes to the same, byte for byte, as reading and replaying one player after the other", async () => {
    await fc.assert(
      fc.asyncProperty(users, fc.constantFrom(1, 1, 0.5), async (given, sampleRate) => {
        const projectId = await aProject(given);
        const params = await paramsOf(projectId, { sampleRate });
        const { result } = await runJob(domain, projectId, { kind: backtest, params });
        const expected = await domain.transact((work) => referenceBacktest(work, projectId, params));
        // The database has stored the result, and orders the names of objects in its own way.
        assert.equal(textOf(sortedNames(result)), textOf(sortedNames(expected)));
      }),
      {
        numRuns: cases(12),
        examples: [[[{ events: 4_100 }, { events: 3, mergedInto: 0 }, { events: 2_001 }], 1]],
      },
    );
  });
});

const sortedNames = (value: unknown): Json => {
  if (Array.isArray(value)) return value.map(sortedNames) as never;
  if (value === null || typeof value !== "object") return value as never;
  const names = Object.keys(value).toSorted();
  return Object.fromEntries(names.map((name) => [name, sortedNames((value as Json)[name])]));
};
