import assert from "node:assert/strict";
import { sql } from "kysely";
import { aggregateValue } from "../../src/domain/evaluation/metrics/aggregates.ts";
import { Metric, metricId } from "../../src/domain/evaluation/metrics/compile.ts";
import { aTenant, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import {
  COUNTERS,
  defineTravel,
  hasTravelData,
  type Line,
  PROJECT_ZONE,
  travelLines,
  zoneOf,
} from "../support/data/travel.ts";
import { type ExpectedPlayer, expectedPlayers } from "../support/data/travel-expected.ts";
import { defineQuests, type ExpectedQuests, expectedQuests } from "../support/data/travel-quests.ts";
import { allProcessed } from "../support/app/processed.ts";

/**
 * The first year of the file: enough for both changes of daylight saving in each zone, little enough for
 * every run. TRAVEL_UNTIL=2015 takes all of it.
 */
const UNTIL = process.env["TRAVEL_UNTIL"] ?? "2012-07";
const BATCH = 1_000;

type Row = {
  user: string;
  xp: number;
  level: number;
  counters: Record<string, never>;
  badges: Record<string, number>;
  streaks: Record<string, [current: number, longest: number, freezes: number]>;
  /** Of the latest cycle, by key. */
  quests: Record<string, QuestRow>;
  stars: Record<string, number>;
};

type QuestRow = {
  state: string;
  startedMs: number;
  completedMs: number | null;
  done: string[];
  completions: number;
};

describe(`travel.stackexchange.com until ${UNTIL}, imported as real events`, function () {
  let api: TestApp;
  let tenant: Tenant;
  let lines: Line[];
  let expected: Map<string, ExpectedPlayer>;
  let quests: Map<string, ExpectedQuests>;
  let rows: Map<string, Row>;

  before(async function () {
    if (!hasTravelData) this.skip();
    api = await startApp();
    tenant = await aTenant(api);
    lines = await travelLines(UNTIL);
    const { key, token, projectId } = tenant;
    must(await api.patch(`/api/v1/projects/${projectId}`, { timezone: PROJECT_ZONE }, { token }), 200);
    await defineTravel(api, key);
    await defineQuests(api, key);
    await bringPlayers();
    await importAll();
    expected = expectedPlayers(lines);
    quests = expectedQuests(lines);
    rows = new Map((await readRows()).map((row) => [row.user, row]));
  });

  /** Each in a zone of their own, which is known before the first event. */
  const bringPlayers = async (): Promise<void> => {
    const users = [...new Set(lines.map(({ externalUserId }) => externalUserId))];
    for (let at = 0; at < users.length; at += 500) {
      const players = users
        .slice(at, at + 500)
        .map((externalUserId) => ({ externalUserId, timezone: zoneOf(externalUserId) }));
      const { created } = must(
        await api.post("/api/v1/players/batch", { players }, { key: tenant.key }),
        200,
      );
      assert.equal(created, players.length);
    }
  };

  /** In the order of the file, each batch when the one before is stored, as an importer does. */
  const importAll = async (): Promise<void> => {
    for (let at = 0; at < lines.length; at += BATCH) {
      const events = lines.slice(at, at + BATCH);
      const { accepted } = must(await api.post("/api/v1/events/batch", { events }, { key: tenant.key }), 200);
      assert.equal(accepted, events.length);
    }
    await allProcessed(api, tenant, 500_000);
  };

  const readRows = (): Promise<Row[]> =>
    api.app.transact(async ({ db }) => {
      const { projectId } = tenant;
      const result = await sql<Row>`
        select p.external_user_id as user, p.xp::float8 as xp, p.level,
          coalesce(s.doc->'c', '{}') as counters,
          (select coalesce(jsonb_object_agg(b.badge_key, b.tier), '{}') from player_badges b
            where b.project_id = p.project_id and b.player_id = p.id and b.tier > 0) as badges,
          (select coalesce(jsonb_object_agg(
              k.streak_key, jsonb_build_array(k.current, k.longest, k.freezes)), '{}')
            from player_streaks k where k.project_id = p.project_id and k.player_id = p.id) as streaks,
          (select coalesce(jsonb_object_agg(q.quest_key, jsonb_build_object('state', q.state,
              'startedMs', extract(epoch from q.started_at) * 1000,
              'completedMs', extract(epoch from q.completed_at) * 1000, 'completions', q.completions,
              'done', (select coalesce(jsonb_agg(s.key), '[]') from jsonb_each(q.doc->'steps') s
                where s.value ? 'doneMs'))), '{}')
            from player_quests q
            where q.project_id = p.project_id and q.player_id = p.id and q.is_latest) as quests,
          (select coalesce(jsonb_object_agg(b.currency_key, b.balance), '{}') from player_balances b
            where b.project_id = p.project_id and b.player_id = p.id) as stars
        from players p
        left join player_states s on s.project_id = p.project_id and s.player_id = p.id
        where p.project_id = ${projectId}`.execute(db);
      return result.rows;
    });

  /** Compares something of every player, and names the first few who differ. */
  const agree = (
    what: string,
    seen: (row: Row) => unknown,
    wanted: (player: ExpectedPlayer) => unknown,
  ): void => {
    const wrong = [...expected].flatMap(([user, player]) => {
      const [found, right] = [JSON.stringify(seen(rows.get(user)!)), JSON.stringify(wanted(player))];
      return found === right ? [] : [`${user} (${zoneOf(user)}): ${found} instead of ${right}`];
    });
    assert.deepEqual(wrong.slice(0, 5), [], `${what}: ${wrong.length} of ${expected.size} players differ`);
  };

  it("makes every player of the file and nobody else", () => {
    assert.deepEqual([...rows.keys()].toSorted(), [...expected.keys()].toSorted());
    assert.ok(expected.size > 1_000);
  });

  it("gives every player the XP and level that plain loops over the file give", () => {
    agree(
      "XP",
      ({ xp }) => xp,
      ({ xp }) => xp,
    );
    agree(
      "level",
      ({ level }) => level,
      ({ level }) => level,
    );
    const levels = new Set([...expected.values()].map(({ level }) => level));
    assert.ok(levels.size > 10, "the file has players of many levels");
  });

  for (const { key, progressMetric } of COUNTERS) {
    it(`counts for every player what plain loops count: ${key}`, () => {
      const metric = Metric.parse(progressMetric);
      const id = metricId(metric);
      agree(
        key,
        ({ counters }) => aggregateValue(metric.aggregate, counters[id]),
        ({ counters }) => counters[key],
      );
    });
  }

  it("awards every player the badges whose counters got so far", () => {
    agree(
      "badges",
      ({ badges }) => Object.keys(badges).toSorted(),
      ({ badges }) => badges.toSorted(),
    );
    assert.ok([...expected.values()].some(({ badges }) => badges.length === COUNTERS.length));
  });

  for (const key of ["daily", "daily-project", "daily-frozen", "weekly", "weekly-five", "monthly"]) {
    it(`gives every player the current and longest streak that plain loops give: ${key}`, () => {
      agree(
        key,
        ({ streaks }) => (streaks[key] ?? [0, 0]).slice(0, 2),
        ({ streaks }) => streaks[key]!.slice(0, 2),
      );
      const longest = Math.max(...[...expected.values()].map(({ streaks }) => streaks[key]![1]));
      assert.ok(longest > 5, `the longest is ${longest}`);
    });
  }

  /** Compares something of the quests of every player. */
  const agreeOnQuests = (
    what: string,
    seen: (row: Row) => unknown,
    wanted: (quests: ExpectedQuests) => unknown,
  ): void => {
    const wrong = [...quests].flatMap(([user, own]) => {
      const [found, right] = [JSON.stringify(seen(rows.get(user)!)), JSON.stringify(wanted(own))];
      return found === right ? [] : [`${user} (${zoneOf(user)}): ${found} instead of ${right}`];
    });
    assert.deepEqual(wrong.slice(0, 5), [], `${what}: ${wrong.length} of ${quests.size} players differ`);
  };

  for (const key of ["story", "dag"] as const) {
    it(`takes every player through a quest as plain loops do, to the millisecond: ${key}`, () => {
      agreeOnQuests(
        key,
        ({ quests: { [key]: row }, stars }) =>
          row && [row.startedMs, row.done.toSorted(), row.completedMs, row.state, stars[`stars-${key}`] ?? 0],
        ({ [key]: once }) => {
          if (!once) return undefined;
          const { startedAt, done, completedAt } = once;
          const ends =
            completedAt === null ? [null, "IN_PROGRESS", 0] : [Date.parse(completedAt), "CLAIMED", 1];
          return [Date.parse(startedAt), done.toSorted(), ...ends];
        },
      );
      const completed = [...quests.values()].filter((own) => own[key] && own[key].completedAt !== null);
      assert.ok(completed.length > 10, `${completed.length} players complete it`);
    });
  }

  for (const key of ["weekly", "weekly-project", "often"]) {
    it(`completes a quest that repeats as often as plain loops, with a star each time: ${key}`, () => {
      agreeOnQuests(
        key,
        ({ quests: { [key]: row }, stars }) => [row?.completions ?? 0, stars[`stars-${key}`] ?? 0],
        ({ completions }) => [completions[key], completions[key]],
      );
      const most = Math.max(...[...quests.values()].map(({ completions }) => completions[key]!));
      assert.ok(most > 10, `${most} times at most`);
    });
  }

  it("leaves every player the freezes that plain loops leave", () => {
    const key = "daily-frozen";
    agree(
      key,
      ({ streaks }) => streaks[key]?.[2] ?? 1,
      ({ streaks }) => streaks[key]![2],
    );
  });

  it("gives other streaks in other zones, so that the zone is seen to matter", () => {
    const differs = [...expected.values()].filter(
      ({ streaks }) => streaks["daily"]![1] !== streaks["daily-project"]![1],
    );
    assert.ok(differs.length > 10, `${differs.length} players`);
  });
});
