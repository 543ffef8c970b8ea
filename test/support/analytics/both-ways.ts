import assert from "node:assert/strict";
import { sql } from "kysely";
import type { Asked } from "../../../src/domain/analytics/ask.ts";
import { readCohorts } from "../../../src/domain/analytics/cohorts.ts";
import { readOverview, readTrends } from "../../../src/domain/analytics/trends.ts";
import { type Frame, type Range, rangeOf } from "../../../src/domain/analytics/range.ts";
import { readFunnel } from "../../../src/domain/analytics/funnels.ts";
import { readRetention, type RetentionQuestion } from "../../../src/domain/analytics/retention.ts";
import { rollUp } from "../../../src/domain/analytics/rollups/roll-up.ts";
import { verifyRollups } from "../../../src/domain/analytics/rollups/verify.ts";
import { openRolled } from "../../../src/domain/analytics/rollups/rolled.ts";
import { readSegments, SEGMENT_GROUPS } from "../../../src/domain/analytics/segments.ts";
import { listSegmentPlayers } from "../../../src/domain/analytics/segment-players.ts";
import { readMetric } from "../../../src/domain/analytics/trend-query.ts";
import type { Work } from "../../../src/domain/kernel/work.ts";
import type { TestApp } from "../app/app.ts";

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
  (entry: "first_time" | "recurring", type: "nday" | "unbounded" | "within"): Question =>
  (work, asked) =>
    readRetention(work, asked, {
      unit: "day",
      type,
      offsets: [0, 1, 2, 7].map((offset) => ({ offset })),
      entry,
      clock: "calendar",
    });

const typedRetention =
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
export const QUESTIONS: Readonly<Record<string, Question>> = {
  overview: (work, asked) => readOverview(work, asked, { compare: "previous_period" }),
  days: trends("day", METRICS),
  weeks: trends("week", METRICS),
  months: trends("month", ["activePlayers", "mau", "avgDau"]),
  hours: trends("hour", ["activePlayers", "event:seen"]),
  types: trends("day", ["events", "activePlayers"], ["won", "lost"]),
  gains: trends("day", GAINS),
  gainsByHour: trends("hour", GAINS),
  gainsByMonth: trends("month", GAINS),
  retention: retention("first_time", "nday"),
  unbounded: retention("first_time", "unbounded"),
  recurring: retention("recurring", "within"),
  started: typedRetention({ startEvent: "won" }),
  startedAndReturned: typedRetention({ startEvent: "won", returnEvents: ["won", "lost"], type: "unbounded" }),
  startedAgain: typedRetention({ startEvent: "seen", returnEvents: ["lost"], entry: "recurring" }),
  byTheClock: typedRetention({ clock: "24h" }),
  startedByTheClock: typedRetention({ clock: "24h", startEvent: "won", returnEvents: ["won"] }),
  funnel: funnel("ordered", ["seen", "won", "lost"]),
  repeated: funnel("ordered", ["won", "won"], ["lost"]),
  inAnyOrder: funnel("any", ["seen", "won", "lost"]),
  cohorts: cohorts("week", "players"),
  eventCohorts: cohorts("day", "events"),
  segments: (work, asked) => readSegments(work, asked, SEGMENT_GROUPS),
  churned: (work, asked) =>
    listSegmentPlayers(work, asked, { group: "lifecycle", segment: "churned", page: 1, limit: 3 }),
  levels: (work, asked) =>
    listSegmentPlayers(work, asked, { group: "level", segment: "1", page: 2, limit: 2 }),
};

/** Moves rollups on to where events end, in as many steps as that takes. */
export const rollUpAll = async ({ app }: TestApp, projectId: string): Promise<void> => {
  while (await app.transact((work) => rollUp(work, projectId, { lagMs: -60_000 })));
};

/** Checks that rollups hold what they should of the events up to their watermark. */
export const assertHeld = async ({ app }: TestApp, projectId: string): Promise<void> => {
  const { differences } = await app.transact(async (work) => {
    await sql`set transaction isolation level repeatable read`.execute(work.db);
    return verifyRollups(work, projectId);
  });
  assert.deepEqual(differences, []);
};

export type AskedBothWays = { frame: Frame; query: { from: string; to: string } };

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
