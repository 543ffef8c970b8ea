import assert from "node:assert/strict";
import { sql } from "kysely";
import fc from "fast-check";
import { randomUUID } from "node:crypto";
import type { Asked } from "../../../src/domain/analytics/ask.ts";
import { readCohorts } from "../../../src/domain/analytics/cohorts.ts";
import { readOverview, readTrends } from "../../../src/domain/analytics/trends.ts";
import {
  type DayFrame,
  type Frame,
  type Range,
  dayFrame,
  rangeOf,
} from "../../../src/domain/analytics/range.ts";
import { readFunnel } from "../../../src/domain/analytics/funnels.ts";
import { readRetention, type RetentionQuestion } from "../../../src/domain/analytics/retention.ts";
import { addZone } from "../../../src/domain/analytics/rollups/closed-days.ts";
import { closeDays, rollUp } from "../../../src/domain/analytics/rollups/roll-up.ts";
import { verifyRollups } from "../../../src/domain/analytics/rollups/verify.ts";
import { openRolled } from "../../../src/domain/analytics/rollups/rolled.ts";
import { findEvents } from "../../../src/domain/analytics/exports/player-events.ts";
import { listSegmentPlayers } from "../../../src/domain/analytics/lists/list-segment.ts";
import { readSegments, SEGMENT_GROUPS } from "../../../src/domain/analytics/segments.ts";
import { readMetric } from "../../../src/domain/analytics/trend-query.ts";
import type { Work } from "../../../src/domain/kernel/work.ts";
import { type Answer, aTenant, startApp, type Tenant, type TestApp } from "../app/app.ts";
import { eventually } from "../eventually.ts";
import { must } from "../http/client.ts";
import { putOnPlan } from "../app/plans.ts";
import { endedJob } from "../app/processed.ts";
import { madeForEach, madeOnce } from "../made.ts";
import { newId } from "../../../src/domain/kernel/ids.ts";
import { type Line, storePastEvents, trackAll } from "../data/data.ts";

type Question = (work: Work, asked: Asked) => Promise<object>;

const GAINS = ["xpGranted", "currencyGranted:coins", "badgesEarned", "levelUps"];
const METRICS = ["activePlayers", "newPlayers", "events", "wau", "stickiness", "totalPlayers", "event:won"];

const trends =
  (
    interval: "hour" | "day" | "week" | "month",
    texts: readonly string[],
    types?: readonly string[],
  ): Question =>
  (work, asked) =>
    readTrends(work, asked, {
      metrics: texts.map((text) => ({ text, metric: readMetric(text) })),
      interval,
      limit: 10,
      cumulative: false,
      types,
      filters: [],
      compare: "none",
    });

const retention =
  (fields: Partial<RetentionQuestion>): Question =>
  (work, asked) =>
    readRetention(work, asked, {
      unit: "day",
      type: "nday",
      offsets: [0, 1, 2, 7].map((offset) => ({ offset })),
      entry: "first_time",
      clock: "calendar",
      ...fields,
    });

const funnel =
  (order: "ordered" | "any", types: readonly string[], exclude: readonly string[] = []): Question =>
  (work, asked) =>
    readFunnel(work, asked, {
      steps: types.map((eventType) => ({ eventType })),
      windowMs: 30 * 3_600_000,
      order,
      exclude: exclude.map((eventType) => ({ eventType })),
    });

const cohorts =
  (unit: "day" | "week", metric: "players" | "events"): Question =>
  (work, asked) =>
    readCohorts(work, asked, { unit, periods: 4, metric, isCumulative: false });

/** Questions that rollups answer, by name. */
const QUESTIONS: Readonly<Record<string, Question>> = {
  overview: (work, asked) => readOverview(work, asked, { compare: "previous_period" }),
  days: trends("day", METRICS),
  weeks: trends("week", METRICS),
  months: trends("month", ["activePlayers", "mau", "avgDau"]),
  hours: trends("hour", ["activePlayers", "event:seen"]),
  types: trends("day", ["events", "activePlayers"], ["won", "lost"]),
  gains: trends("day", GAINS),
  gainsByHour: trends("hour", GAINS),
  gainsByMonth: trends("month", GAINS),
  retention: retention({}),
  byWeek: retention({ unit: "week" }),
  byMonth: retention({ unit: "month" }),
  unbounded: retention({ type: "unbounded" }),
  recurring: retention({ entry: "recurring", type: "within" }),
  started: retention({ startEvent: "won" }),
  startedAndReturned: retention({ startEvent: "won", returnEvents: ["won", "lost"], type: "unbounded" }),
  startedAgain: retention({ startEvent: "seen", returnEvents: ["lost"], entry: "recurring" }),
  byTheClock: retention({ clock: "24h" }),
  startedByTheClock: retention({ clock: "24h", startEvent: "won", returnEvents: ["won"] }),
  funnel: funnel("ordered", ["seen", "won", "lost"]),
  repeated: funnel("ordered", ["won", "won"], ["lost"]),
  inAnyOrder: funnel("any", ["seen", "won", "lost"]),
  cohorts: cohorts("week", "players"),
  eventCohorts: cohorts("day", "events"),
  segments: (work, asked) => readSegments(work, asked, { groups: SEGMENT_GROUPS, averages: true }),
  lifecycle: (work, asked) => readSegments(work, asked, { groups: ["lifecycle"], averages: false }),
  churned: (work, asked) =>
    listSegmentPlayers(work, asked, { group: "lifecycle", segment: "churned", page: 1, limit: 3 }),
  playerEvents: async (work, { frame }) => {
    const found = await findEvents(work, frame);
    return (await sql`select * from (${found}) x order by player_id`.execute(work.db)).rows;
  },
  levels: (work, asked) =>
    listSegmentPlayers(work, asked, { group: "level", segment: "1", page: 2, limit: 2 }),
};

const ZONES = ["UTC", "Europe/Berlin", "Asia/Kathmandu", "Australia/Lord_Howe", "America/Sao_Paulo"];

/** Moves rollups on to where events end, in as many steps as that takes, and closes days of some zones. */
export const rollUpAll = async ({ app }: TestApp, projectId: string, asOfMs = Date.now()): Promise<void> => {
  await app.transact(async (work) => {
    for (const zone of ZONES) await addZone(work, projectId, zone);
  });
  while ((await app.transact((work) => rollUp(work, projectId, { lagMs: -60_000 }))) === "MORE");
  while (await app.transact((work) => closeDays(work, projectId, { asOfMs, restMs: 0 })));
};

/** Checks that rollups hold what they should of the events up to their watermark. */
export const assertHeld = async ({ app }: TestApp, projectId: string): Promise<void> => {
  const { differences } = await app.transact(async (work) => {
    await sql`set transaction isolation level repeatable read`.execute(work.db);
    return verifyRollups(work, projectId);
  });
  assert.deepEqual(differences, []);
};

type AskedBothWays = { frame: Frame; query: { from: string; to: string } };

/** Asks all questions of rollups and of events, and checks that they say the same. Returns how many. */
export const askBothWays = async ({ app }: TestApp, { frame, query }: AskedBothWays): Promise<number> => {
  const range: Range = rangeOf(frame, query);
  const asked: Asked = { frame, range };
  for (const [name, ask] of Object.entries(QUESTIONS)) {
    const ofRollups = await app.transact(async (work) => {
      await sql`set transaction isolation level repeatable read`.execute(work.db);
      assert.ok(await openRolled(work, frame), "there are rollups");
      return ask(work, asked);
    });
    // Rollups are used in one snapshot alone.
    const ofEvents = await app.transact((work) => ask(work, asked));
    assert.deepEqual(ofRollups, ofEvents, `${name} ${JSON.stringify({ query, frame })}`);
  }
  return Object.keys(QUESTIONS).length;
};

/** An event of the past: of whom, which, when, with what. */
export type Past = readonly [user: string, eventType: string, timestamp: string, properties?: object];

/** A tenant with all of its past, who asks questions of analytics. */
export type Asker = {
  tenant: Tenant;
  /** The answer's body; it must be 200. */
  ask(question: string, query?: Record<string, string>): Promise<Answer["body"]>;
  /** As `ask`, of the operation that takes a body. */
  post(question: string, body: object): Promise<Answer["body"]>;
  /** The answer, whatever it is. */
  tryAsk(question: string, query?: Record<string, string>, headers?: Record<string, string>): Promise<Answer>;
  /** Stores events as if they had come and been processed in this order. */
  store(events: readonly Past[]): Promise<void>;
};

const lineOf = ([externalUserId, eventType, timestamp, properties = {}]: Past): Line => ({
  externalUserId,
  eventType,
  timestamp,
  properties: properties as Record<string, unknown>,
  idempotencyKey: newId(),
});

export const anAsker = async (api: TestApp): Promise<Asker> => {
  const tenant = await aTenantOfAllTime(api);
  const tryAsk: Asker["tryAsk"] = (question, query = {}, headers = {}) =>
    api.get(`/api/v1/analytics/${question}?${new URLSearchParams(query).toString()}`, {
      key: tenant.key,
      headers,
    });
  return {
    tenant,
    tryAsk,
    ask: async (question, query) => must(await tryAsk(question, query), 200),
    post: async (question, body) =>
      must(await api.post(`/api/v1/analytics/${question}`, body, { key: tenant.key }), 200),
    store: (events) => storePastEvents(api, tenant.projectId, events.map(lineOf)),
  };
};

/** Marks the event of a player as one that has failed, was rejected or was reverted. */
export const markEvent = async (
  { app }: TestApp,
  { projectId }: Tenant,
  user: string,
  status: "FAILED" | "REJECTED" | "REVERTED",
): Promise<void> => {
  await app.transact(({ db }) =>
    sql`
      insert into event_results (project_id, event_id, status, error, attempts, processed_at)
      select project_id, id, ${status}, 'test', 1, now() from tracked_events
      where project_id = ${projectId}::uuid and external_user_id = ${user}`.execute(db),
  );
};

const USERS = ["a", "b", "c", "d", "e", "f"];
export const START_MS = Date.parse("2018-10-30");
const HOUR_MS = 3_600_000;

const anEvent = fc.record({
  user: fc.constantFrom(...USERS),
  type: fc.constantFrom("seen", "won", "lost"),
  hour: fc.oneof(
    fc.double({ min: -45 * 24, max: 10 * 24, noNaN: true }),
    // Several at one time, at the edges of quarters of an hour.
    fc.integer({ min: 0, max: 40 }).map((quarter) => quarter / 4),
  ),
});

/** What happens between two looks at the numbers. */
export const aChange = fc.oneof(
  { weight: 4, arbitrary: fc.array(anEvent, { minLength: 1, maxLength: 25 }).map((events) => ({ events })) },
  { weight: 3, arbitrary: fc.constant({ rollUp: true as const }) },
  { weight: 3, arbitrary: fc.nat({ max: 200 }).map((revert) => ({ revert })) },
  {
    weight: 1,
    arbitrary: fc
      .uniqueArray(fc.constantFrom(...USERS), { minLength: 2, maxLength: 2 })
      .map((merge) => ({ merge })),
  },
  { weight: 1, arbitrary: fc.constantFrom(...USERS).map((erase) => ({ erase })) },
);
export type Change = typeof aChange extends fc.Arbitrary<infer T> ? T : never;

/** When a question is asked about, from START_MS on. */
export const aQuestion = fc.record({
  timezone: fc.constantFrom(...ZONES),
  from: fc.integer({ min: -5, max: 5 }),
  days: fc.integer({ min: 1, max: 10 }),
  /** Minutes of the day at which the range begins and ends; 0: whole days. */
  minutes: fc.constantFrom(0, 0, 7, 15, 725.5),
  asOf: fc.oneof(fc.constant(60 * 24), fc.double({ min: -2 * 24, max: 11 * 24, noNaN: true })),
});

const idsOf = async (api: TestApp, { tenant }: Asker): Promise<string[]> => {
  const { data } = must(await api.get("/api/v1/events?limit=100", { key: tenant.key }), 200);
  return data.map(({ id }: { id: string }) => id).toSorted();
};

const playerId = async (api: TestApp, { tenant }: Asker, user: string): Promise<string | undefined> => {
  const found = await api.get(`/api/v1/players/ext:${user}`, { key: tenant.key });
  return found.status === 200 ? found.body.id : undefined;
};

/** Reverts an event, if it can be, until all is taken back that it has done. */
export const revertPast = async (api: TestApp, key: string, id: string): Promise<void> => {
  const path = `/api/v1/events/${id}`;
  const { status } = await api.post(`${path}/revert`, { reason: "test" }, { key });
  if (status < 300)
    await eventually(async () => must(await api.get(path, { key }), 200).status === "REVERTED");
};

/** Makes a change of a project. */
export const apply = async (api: TestApp, asker: Asker, change: Change): Promise<void> => {
  const { key, projectId } = asker.tenant;
  if ("rollUp" in change) await rollUpAll(api, projectId);
  else if ("events" in change)
    await asker.store(
      change.events.map(({ user, type, hour }) => [
        user,
        type,
        new Date(Math.floor(START_MS + hour * HOUR_MS)).toISOString(),
      ]),
    );
  else if ("revert" in change) {
    const all = await idsOf(api, asker);
    if (all.length > 0) await revertPast(api, key, all[change.revert % all.length]!);
  } else if ("merge" in change) {
    const [target, source] = await Promise.all(change.merge.map((user) => playerId(api, asker, user)));
    if (target && source)
      await api.post(`/api/v1/players/${target}/merge`, { sourcePlayerId: source }, { key });
  } else {
    const id = await playerId(api, asker, change.erase);
    if (!id) return;
    const job = await api.post(`/api/v1/players/${id}/erase`, { reason: "test" }, { key });
    // Until it is over, some events are still those of the name, and some not any more.
    if (job.status === 201) await endedJob(api, { key }, job.body.id);
  }
};

type When = typeof aQuestion extends fc.Arbitrary<infer T> ? T : never;

/** Returns when a question of a project is asked about. */
export const whenOf = (projectId: string, { timezone, from, days, minutes, asOf }: When): AskedBothWays => {
  const frame = {
    projectId,
    timezone,
    weekStart: "monday" as const,
    dayStartsMs: 0,
    asOfMs: Math.floor(START_MS + asOf * HOUR_MS),
    aheadMs: 0,
  };
  const at = (day: number) => new Date(START_MS + (day * 24 + minutes / 60) * HOUR_MS).toISOString();
  const [first, last] = [at(from), at(from + days)];
  const query =
    minutes === 0 ? { from: first.slice(0, 10), to: last.slice(0, 10) } : { from: first, to: last };
  return { frame, query };
};

/** An event of a hand-made history: who, what, when, and with which properties. */
export type Happening = readonly [
  user: string,
  eventType: string,
  at: string | number,
  properties?: Record<string, unknown>,
];

/** A tenant whose plan shows analytics of all time. */
export const aTenantOfAllTime = async (api: TestApp): Promise<Tenant> => {
  const tenant = await aTenant(api);
  await putOnPlan(api, tenant.tenantId, "ENTERPRISE", { analyticsHistoryDays: null });
  return tenant;
};

/** Tracks a hand-made history in the order given. Returns the ids of its events. */
const track = (api: TestApp, tenant: Pick<Tenant, "key">, history: readonly Happening[]): Promise<string[]> =>
  trackAll(
    api,
    tenant,
    history.map(([externalUserId, eventType, at, properties = {}]) => ({
      externalUserId,
      eventType,
      properties,
      timestamp: new Date(at).toISOString(),
      idempotencyKey: randomUUID(),
    })),
  );

/** A tenant of each test's own, whose hand-made history one question of analytics is asked about. */
export const historiesAskedBy = (question: string) => {
  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenantOfAllTime(api));
  const path = `/api/v1/analytics/${question}`;
  const get = (query: string): Promise<Answer> => api.get(`${path}?${query}`, { key: tenant.key });
  return {
    api,
    tenant,
    /** Tracks the history. Returns the ids of its events. */
    given: (...history: Happening[]): Promise<string[]> => track(api, tenant, history),
    get,
    ask: async (query: string): Promise<Answer["body"]> => must(await get(query), 200),
    /** The question with a body. */
    post: (body: object): Promise<Answer> => api.post(path, body, { key: tenant.key }),
  };
};

/** Steps of a funnel, by types of events. */
export const stepsOf = (...types: string[]) => types.map((eventType) => ({ eventType }));

/** How many players come to each step of a funnel's answer. */
export const playersAt = ({ steps }: Answer["body"]): number[] =>
  steps.map(({ players }: { players: number }) => players);

/** Retention as it is answered. */
type Cell = { offset: number; until?: number; players: number; rate: number; complete: boolean };
export type Cohort = { period: string; size: number; cells: Cell[] };

/** Days of a zone from midnight to midnight. */
export const daysIn = (zone: string): DayFrame => dayFrame({ timezone: zone, settings: {} }, {});
