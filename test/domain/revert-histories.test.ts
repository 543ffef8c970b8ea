import assert from "node:assert/strict";
import fc from "fast-check";
import { awardByHand } from "../../src/domain/economy/badges/player-badges.ts";
import { getPlayer } from "../../src/domain/progression/players/players.ts";
import { recordScores } from "../../src/domain/leaderboards/record-scores.ts";
import { DEFAULT_STRATEGY } from "../../src/domain/kernel/events/events.ts";
import { mergePlayers } from "../../src/domain/player-lifecycle/alias.ts";
import { findingsOf, memoryDomain } from "../support/domain/domain.ts";
import {
  aHistoryProject,
  assertAsIfNever,
  play,
  playReverted,
  standingOf,
  takeBack,
  wonItems,
} from "../support/reverts/histories.ts";
import { cases } from "../support/properties.ts";

describe("what is left of a history of which events were reverted", () => {
  const { domain } = memoryDomain();
  let projectId: string;
  let players = 0;

  before(async () => {
    projectId = await aHistoryProject(domain);
  });

  const wins = (scores: readonly number[]) =>
    scores.map((score) => ({ at: new Date(), properties: { score, game: "a" } }));
  const tierOf = async (user: string, badge: string): Promise<unknown> =>
    (await standingOf(domain, projectId, user))!.badges.find(([key]) => key === badge)?.[1];

  it("is the same as if the reverted ones had never been: counters, tiers, XP and boards", () =>
    fc.assert(
      fc.asyncProperty(wonItems, async (history) => {
        const user = `player-${players++}`;
        const like = `${user}-like`;
        const left = await playReverted(domain, projectId, { user, like, history });
        // A level that is reached without the event stays.
        assert.deepEqual(
          left.filter((what) => !what.startsWith("level ")),
          [],
        );
        await assertAsIfNever(domain, projectId, { user, like });
      }),
      { numRuns: cases(40) },
    ));
  it("keeps a tier that was awarded otherwise, or that the counter has met before", async () => {
    const ids = await play(domain, projectId, { user: "other", events: wins([1, 25, -20, 1]) });
    const award = { badge: "count", tier: 3, cause: { kind: "API" as const } };
    await domain.transact(async (work) =>
      awardByHand(work, await getPlayer(work, projectId, "ext:other"), award),
    );
    for (const id of [ids[0]!, ids[3]!]) await takeBack(domain, projectId, id);
    assert.deepEqual([await tierOf("other", "count"), await tierOf("other", "sum")], [3, 2]);
    await takeBack(domain, projectId, ids[1]!);
    assert.equal(await tierOf("other", "sum"), undefined);
  });

  it("has no place on boards on which nothing else has scored, in the ranks neither", async () => {
    const boards = await domain.sql<{ key: string; period_id: string }>`
      select key, period_id from leaderboards where project_id = ${projectId}`;
    const placeOn = async (user: string, key: string) => {
      const playerId = await domain.addPlayer(projectId, user);
      const { period_id: periodId } = boards.find((board) => board.key === key)!;
      await domain.relay();
      return domain.ranks.standing({ projectId, periodId, ties: "EARLIEST" }, playerId);
    };
    const PLAIN = ["wins", "points", "xp", "best", "last"];
    const [only] = await play(domain, projectId, { user: "left", events: wins([3]) });
    const [first] = await play(domain, projectId, { user: "nought", events: wins([4, 0]) });
    for (const key of PLAIN) assert.ok(await placeOn("left", key), key);
    await takeBack(domain, projectId, only!);
    await takeBack(domain, projectId, first!);
    assert.deepEqual((await standingOf(domain, projectId, "left"))!.entries, []);
    for (const key of PLAIN) assert.equal(await placeOn("left", key), undefined, key);
    for (const key of ["points", "best", "last"])
      assert.equal((await placeOn("nought", key))!.rankScore + 0, 0, `${key}: a score of 0 is one`);
    await play(domain, projectId, { user: "left", events: wins([2]) });
    for (const key of PLAIN) assert.ok(await placeOn("left", key), `${key}: the next score enters again`);
  });

  describe("of submitted scores", () => {
    const scoresOf = async (user: string): Promise<Record<string, number>> =>
      Object.fromEntries(
        (await standingOf(domain, projectId, user))!.entries
          .filter(([key]) => String(key).startsWith("custom-"))
          .map(([key, , score]) => [key, score]),
      );
    const kept = ["custom-best", "custom-last"].map(
      (key) => `leaderboard ${key}: other scores than the one reverted`,
    );

    it("names boards in left on which a request has scored too, and takes back what adds up", async () => {
      const [, best] = await play(domain, projectId, { user: "mixed", events: wins([2, 8]) });
      const playerId = await domain.addPlayer(projectId, "mixed");
      for (const leaderboardKey of ["custom-best", "custom-sum", "custom-last", "custom-less"])
        await domain.transact((work) =>
          recordScores(work, { projectId, leaderboardKey }, [
            { playerId, score: 5, occurredAt: new Date(0) },
          ]),
        );
      const { left } = await takeBack(domain, projectId, best!);
      assert.deepEqual(left, kept);
      assert.deepEqual(await scoresOf("mixed"), {
        "custom-best": -8,
        "custom-last": -8,
        "custom-less": 7,
        "custom-sum": -2,
      });
    });

    it("names the score in left where it was not recorded", async () => {
      const [only] = await play(domain, projectId, { user: "before", events: wins([4]) });
      await domain.sql`update rule_executions set effects = null where project_id = ${projectId} and event_id = ${only}`;
      const { left } = await takeBack(domain, projectId, only!);
      const names = ["best", "last", "less", "sum"];
      assert.deepEqual(
        left,
        names.map((name) => `leaderboard custom-${name}: the score submitted by rule points`),
      );
      assert.equal((await scoresOf("before"))["custom-best"], -4);
    });

    it("does not take the next one for known after a merge", async () => {
      const [best] = await play(domain, projectId, { user: "target", events: wins([9, 2]) });
      await play(domain, projectId, { user: "source", events: wins([6]) });
      const ids = {
        targetId: await domain.addPlayer(projectId, "target"),
        sourceId: await domain.addPlayer(projectId, "source"),
      };
      await domain.transact((work) =>
        mergePlayers(work, { projectId, ...ids, strategy: DEFAULT_STRATEGY, cause: {} }),
      );
      const { left } = await takeBack(domain, projectId, best!);
      assert.ok(left.includes(kept[0]!), left.join());
      assert.equal((await scoresOf("target"))["custom-best"], -9);
    });

    it("does not take the next one for known where an execution is gone", async () => {
      const [first, last] = await play(domain, projectId, { user: "pruned", events: wins([3, 9]) });
      await domain.sql`delete from rule_executions where project_id = ${projectId} and event_id = ${first}`;
      assert.deepEqual((await takeBack(domain, projectId, last!)).left, kept);
      assert.deepEqual((await scoresOf("pruned"))["custom-sum"], -3);
    });
  });

  it("is found in order by a reconciliation", async () =>
    assert.deepEqual(await findingsOf(domain, projectId), []));

  it("is named by a reconciliation where a tier is not what the counter gives", async () => {
    const user = "broken";
    await play(domain, projectId, { user, events: wins([1, 25, -20]) });
    const setTier = (badge: string, tier: number) =>
      domain.sql`
        update player_badges set tier = ${tier} where badge_key = ${badge} and player_id = (
          select id from players where project_id = ${projectId} and external_user_id = ${user})`;
    for (const [badge, wrong, right] of [
      ["count", 2, 1],
      ["count", 0, 1],
      ["sum", 3, 2],
      ["highest", 1, 2],
    ] as const) {
      await setTier(badge, wrong);
      const message = `I14 badge ${badge}: the tier is ${wrong}, the counter says ${right}`;
      assert.deepEqual(await findingsOf(domain, projectId), [message]);
      await setTier(badge, right);
    }
    assert.deepEqual(await findingsOf(domain, projectId), []);
  });
});
