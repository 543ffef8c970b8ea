import assert from "node:assert/strict";
import fc from "fast-check";
import { sql } from "kysely";
import { getPlayer } from "../../src/domain/progression/players/players.ts";
import { readRecap } from "../../src/domain/player-lifecycle/history.ts";
import { define, memoryDomain, publish } from "../support/domain/domain.ts";
import { cases } from "../support/properties.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** Days that are over, so that no event is of the future. */
const DAYS = 12;
const START_MS = Math.floor(Date.now() / DAY_MS - DAYS) * DAY_MS;

type Hit = { hour: number; score: number };

describe("what a player has done, told in any order", () => {
  const { domain } = memoryDomain();
  let projectId: string;

  before(async () => {
    projectId = await domain.addProject();
    await define(domain, projectId, "currency", { key: "coins", name: "Coins" });
    await define(domain, projectId, "badge", {
      key: "sharp",
      name: "Sharp",
      tiers: [{ tier: 1 }, { tier: 2 }],
    });
    await define(domain, projectId, "badge", {
      key: "again",
      name: "Again",
      repeatable: true,
      tiers: [{ tier: 1 }],
    });
    await define(domain, projectId, "streak", {
      key: "daily",
      name: "Daily",
      qualify: { parts: [{ metric: { eventTypes: ["goal"], aggregate: "count" } }] },
    });
    const score = { $ref: "event.properties.score" };
    await publish(domain, projectId, {
      key: "gains",
      actions: [
        { type: "grant_xp", amount: score },
        { type: "adjust_currency", currencyKey: "coins", amount: score },
      ],
    });
    for (const [tier, least] of [
      [1, 120],
      [2, 210],
    ])
      await publish(domain, projectId, {
        key: `sharp-${tier}`,
        conditions: { all: [{ type: "event_property", path: "score", op: "gte", value: least }] },
        actions: [{ type: "update_badge", operation: "AWARD", badgeKey: "sharp", tier }],
      });
    await publish(domain, projectId, {
      key: "again",
      conditions: { all: [{ type: "event_property", path: "score", op: "gte", value: 180 }] },
      actions: [{ type: "update_badge", operation: "AWARD", badgeKey: "again" }],
    });
    const metric = { source: "EVENT", event: { eventTypes: ["goal"] }, property: "score" };
    await domain.addBoard(projectId, { key: "best", name: "Best", metric: { ...metric, aggregate: "max" } });
    await domain.addBoard(projectId, {
      key: "sums",
      name: "Sums",
      metric: { ...metric, aggregate: "sum" },
      period: { kind: "DAILY" },
    });
    await domain.addBoard(projectId, {
      key: "last",
      name: "Last",
      metric: { ...metric, aggregate: "latest" },
    });
  });

  let players = 0;
  const play = async (hits: readonly Hit[]): Promise<string> => {
    const user = `player ${++players}`;
    const id = await domain.addPlayer(projectId, user);
    for (const { hour, score } of hits) {
      await domain.track(projectId, [
        { user, at: new Date(START_MS + hour * HOUR_MS), properties: { score } },
      ]);
      await domain.process();
    }
    return id;
  };

  const recapOf = (id: string, from: number, to: number) =>
    domain.transact(async (work) => {
      const player = await getPlayer(work, projectId, id);
      const span = { from: new Date(START_MS + from * DAY_MS), to: new Date(START_MS + to * DAY_MS) };
      return readRecap(work, player, span);
    });

  const whatHas = async (id: string) => {
    const of = sql`project_id = ${projectId} and player_id = ${id}`;
    const whole = await recapOf(id, 0, DAYS + 1);
    // What was told when it came: badges and levels are those of the events that brought them.
    const { badges: _, playerId: __, ...recap } = whole;
    const parts = [];
    for (const [from, to] of [
      [0, 5],
      [5, 9],
    ] as const) {
      const { badges: ___, playerId: ____, levelsGained: _____, ...part } = await recapOf(id, from, to);
      parts.push(part);
    }
    return {
      recap,
      parts,
      player:
        await domain.sql`select xp, level, first_seen_at, last_seen_at from players where project_id = ${projectId} and id = ${id}`,
      badges:
        await domain.sql`select badge_key, tier, times_awarded, first_earned_at, last_earned_at from player_badges
        where ${of} order by 1`,
      streaks: await domain.sql`select current, longest, deadline_at from player_streaks where ${of}`,
      entries:
        await domain.sql`select l.key, p.period_key, e.rank_score, e.rank_tie from leaderboard_entries e
        join leaderboard_periods p on p.project_id = e.project_id and p.id = e.period_id
        join leaderboards l on l.project_id = p.project_id and l.id = p.leaderboard_id
        where e.project_id = ${projectId} and e.player_id = ${id} order by 1, 2`,
    };
  };

  it("gives what it gives in order", () => {
    const hits = fc
      .uniqueArray(fc.integer({ min: 0, max: 24 * DAYS - 1 }), { minLength: 2, maxLength: 9 })
      .chain((hours) =>
        // Each score is another, since the latest of equal ones may be reached anew.
        fc.tuple(
          ...hours.map((hour) =>
            fc.record({ hour: fc.constant(hour), score: fc.constant(1 + ((hour * 181) % 293)) }),
          ),
        ),
      );
    return fc.assert(
      fc.asyncProperty(hits, async (told) => {
        const inOrder = told.toSorted((a, b) => a.hour - b.hour);
        assert.deepEqual(await whatHas(await play(told)), await whatHas(await play(inOrder)));
      }),
      { numRuns: cases(40) },
    );
  });
});
