import assert from "node:assert/strict";
import { sql } from "kysely";
import { aTenant, startApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { eventuallyHolds } from "../support/eventually.ts";
import { playersOf } from "../support/players/players.ts";
import { madeForEach, madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

const DAY_MS = 86_400_000;

describe("merging what players have done", () => {
  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));
  const players = madeForEach(() => playersOf(api, tenant));

  const pair = async () => ({ target: await players.add(), source: await players.add() });

  it("unites badges with the higher tier, profiles by whose wins, and tags", async () => {
    const tiers = [{ tier: 1 }, { tier: 2 }];
    for (const key of ["both", "theirs"]) await players.define("badges", { key, name: key, tiers });
    const attributes = { shared: "target", mine: 1 };
    const target = await players.add({ attributes, tags: ["a"], displayName: "Tar", metadata: { m: 1 } });
    const theirs = { shared: "source", yours: 2 };
    const source = await players.add({
      attributes: theirs,
      tags: ["b"],
      displayName: "Sou",
      country: "SE",
      metadata: { m: 2, n: 3 },
    });
    const award = async (id: string, key: string, tier: number) =>
      void must(await players.post(`/players/${id}/badges/${key}`, { tier }), 201);
    await award(target.id, "both", 1);
    await award(source.id, "both", 2);
    await award(source.id, "theirs", 1);
    const { player, summary } = must(await players.merge(target.id, source.id), 200);
    assert.deepEqual(
      summary.badges.toSorted((x: { tier: number }, y: { tier: number }) => x.tier - y.tier),
      [
        { badgeKey: "theirs", tier: 1 },
        { badgeKey: "both", tier: 2 },
      ],
    );
    assert.deepEqual(player.attributes, { shared: "target", mine: 1, yours: 2 });
    assert.deepEqual([player.tags, player.displayName, player.country], [["a", "b"], "Tar", "SE"]);
    assert.deepEqual(player.metadata, { m: 1, n: 3 });
    const { badges } = await players.read(`${target.id}?include=badges`);
    const held = badges.map(({ badgeKey, tier }: { badgeKey: string; tier: number }) => [badgeKey, tier]);
    assert.deepEqual(held, [
      ["both", 2],
      ["theirs", 1],
    ]);
  });

  it("adds counters, awards the tiers of a badge that they reach, and a rule's limit holds for both", async () => {
    const metric = { eventTypes: ["goal"], aggregate: "count" };
    const tiers = [1, 4, 5].map((threshold, i) => ({
      tier: i + 1,
      threshold,
      rewards: { xp: 10 ** i * 100 },
    }));
    await players.define("badges", { key: "scorer", name: "Scorer", tiers, progressMetric: metric });
    const rule = {
      key: "thrice",
      name: "Thrice",
      triggers: [{ kind: "EVENT", eventTypes: ["goal"] }],
      limits: { perPlayer: [{ max: 3, window: "LIFETIME" }] },
      actions: [{ type: "grant_xp", amount: 10 }],
    };
    const { id } = must(await players.post("/rules", rule), 201);
    must(await players.post(`/rules/${id}/publish`, {}), 200);
    const { target, source } = await pair();
    for (const { ext } of [target, source]) for (let i = 0; i < 2; i++) await players.track(ext, "goal");
    const { summary } = must(await players.merge(target.id, source.id), 200);
    assert.deepEqual(summary.badges, [{ badgeKey: "scorer", tier: 2 }]);
    assert.equal(summary.xp.result, 240);
    const merged = await players.read(`${target.id}?include=badges`);
    assert.deepEqual([merged.xp, merged.badges[0].progress, merged.badges[0].tier], [1240, 4, 2]);
    await players.track(source.ext, "goal");
    const { xp, badges } = await players.read(`${target.id}?include=badges`);
    assert.equal(xp, 11_240, "two and two are beyond the limit of three");
    assert.deepEqual([badges[0].progress, badges[0].tier], [5, 3]);
  });

  it("keeps the longer streak, the longest ever, and freezes up to the maximum", async () => {
    await players.define("streaks", {
      key: "daily",
      name: "Daily",
      qualify: { parts: [{ metric: { eventTypes: ["lesson"], aggregate: "count" } }] },
      freeze: { max: 3 },
    });
    const { target, source } = await pair();
    const days = async (ext: string, count: number) => {
      for (let i = count - 1; i >= 0; i--)
        await players.track(ext, "lesson", { timestamp: new Date(Date.now() - i * DAY_MS).toISOString() });
    };
    await days(target.ext, 2);
    await days(source.ext, 4);
    for (const { id } of [target, source])
      must(await players.post(`/players/${id}/streaks/daily/freezes`, { amount: 2 }), 200);
    const { summary } = must(await players.merge(target.id, source.id), 200);
    assert.deepEqual(summary.streaks, [{ streakKey: "daily", current: 4, longest: 4, freezes: 3 }]);
    const { streaks } = await players.read(`${target.id}?include=streaks`);
    assert.deepEqual([streaks[0].current, streaks[0].freezes, streaks[0].doneThisPeriod], [4, 3, true]);
    const runs = await players.query(sql<{ length: number; ended_by: string }>`
      select length, ended_by from streak_runs where project_id = ${players.projectId}`);
    assert.deepEqual(runs, [{ length: 2, ended_by: "MERGED" }]);
  });

  it("combines scores by each board's operator, and leaves the source on none", async () => {
    const board = async (key: string, operator: string) =>
      void must(
        await players.post("/leaderboards", { key, name: key, metric: { source: "CUSTOM" }, operator }),
        201,
      );
    await board("best", "BEST");
    await board("sum", "SUM");
    must(await players.post("/leaderboards", { key: "xp", name: "XP", metric: { source: "XP" } }), 201);
    const { target, source } = await pair();
    for (const key of ["best", "sum"]) {
      for (const [playerId, score] of [
        [target.id, 30],
        [source.id, 50],
      ])
        must(await players.post(`/leaderboards/${key}/scores`, { playerId, score }), 200);
    }
    await players.xp(target.id, 10);
    await players.xp(source.id, 20);
    const entries = async (key: string) =>
      must(await players.get(`/leaderboards/${key}/entries`), 200).data.map(
        (one: { playerId: string; score: number }) => [one.playerId, one.score],
      );
    await eventuallyHolds(async () => assert.equal((await entries("xp")).length, 2));
    must(await players.merge(target.id, source.id), 200);
    const expected = { best: 50, sum: 80, xp: 30 };
    await eventuallyHolds(async () => {
      for (const [key, score] of Object.entries(expected))
        assert.deepEqual(await entries(key), [[target.id, score]]);
    });
    const { ranks } = await players.read(`${source.id}?include=ranks`);
    assert.deepEqual(pluck(ranks, "leaderboardKey", "rank", "participants", "percentile"), [
      ["best", 1, 1, 100],
      ["sum", 1, 1, 100],
      ["xp", 1, 1, 100],
    ]);
  });

  it("moves static segments, boosts, messages and grants, and releases holds", async () => {
    await players.define("currencies", { key: "coins", name: "Coins" });
    await players.define("segments", { key: "vips", name: "VIPs" });
    await players.define("segments", {
      key: "rich",
      name: "Rich",
      kind: "DYNAMIC",
      definition: { all: [{ type: "player_property", field: "xp", op: "gte", value: 100 }] },
    });
    await players.define("rewards", { key: "pack", name: "Pack", kind: "BUNDLE", bundle: { xp: 1 } });
    const { target, source } = await pair();
    await players.xp(target.id, 60);
    await players.xp(source.id, 60);
    must(await players.post("/segments/vips/members", { playerIds: [source.id] }), 200);
    const boost = { boostKey: "double", applies: "xp", factor: 2, durationSeconds: 600 };
    must(await players.post(`/players/${source.id}/boosts`, boost), 201);
    must(await players.post(`/players/${source.id}/inbox`, { type: "news", title: "Hello" }), 201);
    for (const { id } of [target, source])
      must(await players.post("/rewards/pack/grant", { playerId: id, delivery: "CLAIM" }), 201);
    await players.grant(source.id, "coins", 9);
    const hold = { amount: 4, expiresInSeconds: 600 };
    must(await players.post(`/players/${source.id}/balances/coins/holds`, hold), 201);
    const { summary, player } = must(await players.merge(target.id, source.id), 200);
    assert.deepEqual([summary.segments, summary.boosts, summary.holdsReleased], [["vips"], 1, 1]);
    assert.equal(player.currencies.coins, 9);
    const { segments, boosts } = await players.read(`${target.id}?include=segments,boosts`);
    assert.deepEqual([segments, boosts.length], [["rich", "vips"], 1]);
    const inbox = must(await players.get(`/players/${target.id}/inbox`), 200).data;
    assert.ok(inbox.some(({ title }: { title: string }) => title === "Hello"));
    const { data } = must(await players.get(`/players/${target.id}/rewards`), 200);
    assert.equal(data.length, 2);
    for (const { id } of data) must(await players.post(`/players/${target.id}/rewards/${id}/claim`, {}), 200);
  });

  it("is heard by rules as player.merged alone, and gives a level's reward once", async () => {
    const rule = (key: string, eventType: string, amount: number) => ({
      key,
      name: key,
      triggers: [{ kind: "EVENT", eventTypes: [eventType] }],
      actions: [{ type: "update_player", increment: { [key]: amount } }],
    });
    for (const [key, type] of [
      ["gains", "player.xp_granted"],
      ["merges", "player.merged"],
    ] as const) {
      const { id } = must(await players.post("/rules", rule(key, type, 1)), 201);
      must(await players.post(`/rules/${id}/publish`, {}), 200);
    }
    await players.define("currencies", { key: "coins", name: "Coins" });
    for (const key of ["2", "3"])
      await players.define("levels", { key, name: `Level ${key}`, rewards: { currencies: { coins: 10 } } });
    const { target, source } = await pair();
    await players.xp(target.id, 50);
    await players.xp(source.id, 210);
    const { player } = must(await players.merge(target.id, source.id), 200);
    assert.deepEqual([player.level, player.levelProgress.levelName], [3, "Level 3"]);
    assert.equal(player.currencies.coins, 20, "level 2 was rewarded at the source, level 3 now");
    assert.deepEqual(player.attributes, { gains: 1, merges: 1 });
  });

  it("keeps lives of whoever has more", async () => {
    const settings = { lives: { enabled: true, max: 5, start: 5, refillSeconds: 3_600 } };
    must(await api.patch(`/api/v1/projects/${tenant.projectId}`, { settings }, { token: tenant.token }), 200);
    const { target, source } = await pair();
    must(await players.post(`/players/${target.id}/lives/consume`, { amount: 4 }), 200);
    must(await players.post(`/players/${source.id}/lives/consume`, { amount: 2 }), 200);
    const { player, summary } = must(await players.merge(target.id, source.id), 200);
    assert.deepEqual([player.lives.current, summary.lives], [3, { target: 1, source: 3, result: 3 }]);
  });
});
