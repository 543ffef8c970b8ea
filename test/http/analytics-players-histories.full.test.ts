import assert from "node:assert/strict";
import fc from "fast-check";
import { sql } from "kysely";
import type { ActiveBy } from "../../src/domain/analytics/active-players.ts";
import type { Asked } from "../../src/domain/analytics/ask.ts";
import { type CohortQuestion, readCohorts } from "../../src/domain/analytics/cohorts.ts";
import { type FunnelQuestion, readFunnel } from "../../src/domain/analytics/funnels.ts";
import { listPlayersBehind, type ListQuestion } from "../../src/domain/analytics/lists/list-segment.ts";
import { readRetention, type RetentionQuestion } from "../../src/domain/analytics/retention.ts";
import { readSegments, SEGMENT_GROUPS } from "../../src/domain/analytics/segments.ts";
import type { Work } from "../../src/domain/kernel/work.ts";
import { rangeOf } from "../../src/domain/analytics/range.ts";
import { openRolled } from "../../src/domain/analytics/rollups/rolled.ts";
import {
  aChange,
  anAsker,
  apply,
  aQuestion,
  rollUpAll,
  START_MS,
  whenOf,
} from "../support/analytics/histories.ts";
import { startApp } from "../support/app/app.ts";
import { cases } from "../support/properties.ts";
import { madeOnce } from "../support/made.ts";

/** A number that an answer has, and what lists its players. */
type Numbered = { list: ListQuestion; players: number };

const RETENTION: RetentionQuestion = {
  unit: "day",
  type: "nday",
  offsets: [0, 1, 2, 7].map((offset) => ({ offset })),
  entry: "first_time",
  clock: "calendar",
};

const RETENTIONS: readonly RetentionQuestion[] = [
  RETENTION,
  { ...RETENTION, type: "unbounded", entry: "recurring" },
  { ...RETENTION, startEvent: "won" },
  { ...RETENTION, returnEvents: ["won", "lost"], type: "within" },
  { ...RETENTION, clock: "24h", entry: "recurring" },
  { ...RETENTION, breakdown: { path: ["map"], limit: 2 } },
];

const numbersOfRetention = async (
  work: Work,
  asked: Asked,
  question: RetentionQuestion,
): Promise<Numbered[]> => {
  const { cohorts } = await readRetention(work, asked, question);
  return cohorts.flatMap(({ period: cohort, size, cells }): Numbered[] => [
    { list: { of: "retention", question, number: { cohort, returned: true } }, players: size },
    ...cells.flatMap(({ offset, players }): Numbered[] => [
      { list: { of: "retention", question, number: { cohort, offset, returned: true } }, players },
      {
        list: { of: "retention", question, number: { cohort, offset, returned: false } },
        players: size - players,
      },
    ]),
  ]);
};

const COHORT: CohortQuestion = { unit: "day", periods: 3, metric: "players", isCumulative: false };

const COHORTS: readonly CohortQuestion[] = [
  COHORT,
  { ...COHORT, unit: "week", isCumulative: true },
  { ...COHORT, metric: "xp" },
  { ...COHORT, segmentBy: { path: ["map"], limit: 1 } },
  { ...COHORT, segmentBy: { path: ["map"], limit: 1 }, isCumulative: true },
];

const numbersOfCohorts = async (work: Work, asked: Asked, question: CohortQuestion): Promise<Numbered[]> => {
  const { cohorts } = await readCohorts(work, asked, question);
  const isOfPlayers = question.metric === "players";
  return cohorts.flatMap(({ period, label, size, values }): Numbered[] => {
    const row = question.segmentBy ? { segment: label } : { cohort: period! };
    const cells = values.map((players, k): Numbered => ({
      list: { of: "cohorts", question, number: { ...row, k } },
      players,
    }));
    return [{ list: { of: "cohorts", question, number: row }, players: size }, ...(isOfPlayers ? cells : [])];
  });
};

const FUNNEL: FunnelQuestion = {
  steps: ["seen", "won", "lost"].map((eventType) => ({ eventType })),
  windowMs: 30 * 3_600_000,
  order: "ordered",
  exclude: [],
};

const FUNNELS: readonly FunnelQuestion[] = [
  FUNNEL,
  { ...FUNNEL, order: "any" },
  { ...FUNNEL, order: "strict" },
  { ...FUNNEL, breakdown: { path: ["map"], limit: 50 } },
];

const numbersOfFunnel = async (work: Work, asked: Asked, question: FunnelQuestion): Promise<Numbered[]> => {
  const { steps, breakdown = [] } = await readFunnel(work, asked, question);
  const ofSteps = steps.flatMap(({ index: step, players, dropOff }): Numbered[] => [
    { list: { of: "funnels", question, number: { step, state: "completed" } }, players },
    { list: { of: "funnels", question, number: { step, state: "dropped" } }, players: dropOff },
  ]);
  const ofValues = breakdown.flatMap(({ value, players: counts }) =>
    counts.map((players, i): Numbered => ({
      list: { of: "funnels", question, number: { step: i + 1, state: "completed", value } },
      players,
    })),
  );
  return [...ofSteps, ...ofValues];
};

const SEGMENTS: readonly ActiveBy[] = [
  {},
  { types: ["won", "lost"] },
  { filters: [{ path: ["map"], values: ["ice"] }] },
];

const numbersOfSegments = async (work: Work, asked: Asked, question: ActiveBy): Promise<Numbered[]> => {
  const { groups } = await readSegments(work, asked, { groups: SEGMENT_GROUPS, averages: true, ...question });
  return groups.flatMap(({ key: group, segments }) =>
    segments.map(({ key: segment, players }): Numbered => ({
      list: { of: "segments", question, number: { group, segment } },
      players,
    })),
  );
};

/** Returns all numbers of many questions. */
const allNumbers = async (work: Work, asked: Asked): Promise<Numbered[]> => {
  const found: Numbered[] = [];
  for (const question of SEGMENTS) found.push(...(await numbersOfSegments(work, asked, question)));
  for (const question of RETENTIONS) found.push(...(await numbersOfRetention(work, asked, question)));
  for (const question of COHORTS) found.push(...(await numbersOfCohorts(work, asked, question)));
  for (const question of FUNNELS) found.push(...(await numbersOfFunnel(work, asked, question)));
  return found;
};

/** Checks that the list behind a number has as many players, each once, and returns them. */
const listAll = async (work: Work, asked: Asked, { list, players }: Numbered): Promise<string[]> => {
  const ids: string[] = [];
  for (let cursor: string | undefined; ;) {
    const { data, pagination } = await listPlayersBehind(work, asked, list, { cursor, limit: 4 });
    assert.equal(pagination.total, players, JSON.stringify(list));
    ids.push(...data.map(({ playerId }) => playerId));
    if (pagination.nextCursor === null) break;
    cursor = pagination.nextCursor;
  }
  assert.equal(ids.length, players, JSON.stringify(list));
  assert.equal(new Set(ids).size, players, JSON.stringify(list));
  return ids;
};

describe("lists of players behind numbers", () => {
  const api = madeOnce(startApp);

  it("are as long as the number, from rollups and from events, after reverts, merges and erasures", () =>
    fc.assert(
      fc.asyncProperty(
        fc.array(aChange, { minLength: 2, maxLength: 14 }),
        aQuestion,
        async (changes, when) => {
          const asker = await anAsker(api);
          await asker.store([["a", "seen", new Date(START_MS).toISOString(), { map: "ice" }]]);
          await rollUpAll(api, asker.tenant.projectId);
          for (const change of changes) await apply(api, asker, change);
          const { frame, query } = whenOf(asker.tenant.projectId, when);
          const asked = { frame, range: rangeOf(frame, query) };
          const ofEvents = await api.app.transact(async (work) => {
            const numbers = await allNumbers(work, asked);
            const lists = new Map<string, string[]>();
            // Lists of nobody are many; a few of them are enough.
            for (const [i, one] of numbers.entries())
              if (one.players > 0 || i % 10 === 0)
                lists.set(JSON.stringify(one), await listAll(work, asked, one));
            return lists;
          });
          const ofRollups = await api.app.transact(async (work) => {
            await sql`set transaction isolation level repeatable read`.execute(work.db);
            assert.ok(await openRolled(work, frame), "there are rollups");
            const lists = new Map<string, string[]>();
            for (const [i, one] of (await allNumbers(work, asked)).entries())
              if (one.players > 0 || i % 10 === 0)
                lists.set(JSON.stringify(one), await listAll(work, asked, one));
            return lists;
          });
          assert.deepEqual(ofRollups, ofEvents);
        },
      ),
      { numRuns: cases(8) },
    ));
});
