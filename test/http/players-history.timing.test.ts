import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { aTenant, startApp, type TestApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { type Players, playersOf } from "../support/players/players.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

describe("what a player was and did", () => {
  let api: TestApp;
  let players: Players;
  beforeEach(async () => {
    api = await startApp();
    players = playersOf(api, await aTenant(api));
  });

  /** A moment with nothing of what comes after it: stored times have milliseconds. */
  const aMoment = async (): Promise<string> => {
    await delay(5);
    const now = new Date().toISOString();
    await delay(5);
    return now;
  };
  const stateAt = (id: string, at: string) =>
    players.get(`/players/${id}/state?at=${encodeURIComponent(at)}`);

  it("is known at every moment from the ledger, the log of badges and the stream", async () => {
    await players.define("currencies", { key: "coins", name: "Coins" });
    await players.define("badges", { key: "fan", name: "Fan", tiers: [{ tier: 1 }, { tier: 2 }] });
    await players.define("streaks", {
      key: "daily",
      name: "Daily",
      qualify: { parts: [{ metric: { eventTypes: ["lesson"], aggregate: "count" } }] },
    });
    const { id, ext } = await players.add();
    const moments = [await aMoment()];
    const steps: (() => Promise<unknown>)[] = [
      () => players.xp(id, 260),
      () => players.post(`/players/${id}/balances/coins/grant`, { amount: 7, reason: "x" }),
      () => players.post(`/players/${id}/badges/fan`, { tier: 2 }),
      () => players.track(ext, "lesson"),
      () => players.post(`/players/${id}/xp`, { amount: -200 }),
      () => players.post(`/players/${id}/balances/coins/spend`, { amount: 3, reason: "x" }),
    ];
    for (const step of steps) {
      await step();
      moments.push(await aMoment());
    }
    const seen = [];
    for (const at of moments) {
      const { xp, level, currencies, badges, streaks } = must(await stateAt(id, at), 200);
      seen.push([xp, level, currencies, badges, streaks]);
    }
    const [fan, daily] = [
      { badgeKey: "fan", tier: 2 },
      { streakKey: "daily", current: 1 },
    ];
    assert.deepEqual(seen, [
      [0, 1, {}, [], []],
      [260, 3, {}, [], []],
      [260, 3, { coins: 7 }, [], []],
      [260, 3, { coins: 7 }, [fan], []],
      [260, 3, { coins: 7 }, [fan], [daily]],
      [60, 3, { coins: 7 }, [fan], [daily]],
      [60, 3, { coins: 4 }, [fan], [daily]],
    ]);
    const { caveats } = must(await stateAt(id, moments[0]!), 200);
    assert.ok(caveats.some((text: string) => text.startsWith("level")));
    for (const at of [new Date(0), new Date(Date.now() + DAY_MS)])
      assertError(await stateAt(id, at.toISOString()), 400);
    assertError(await players.get(`/players/${id}/state`), 400);
    assertError(await stateAt("ext:nobody", moments[0]!), 404);
  });

  it("forgets a badge's tiers when it is revoked, and counts those after it", async () => {
    await players.define("badges", { key: "fan", name: "Fan", tiers: [{ tier: 1 }, { tier: 2 }] });
    const { id } = await players.add();
    const badges = async () => must(await stateAt(id, await aMoment()), 200).badges;
    must(await players.post(`/players/${id}/badges/fan`, { tier: 2 }), 201);
    assert.deepEqual(await badges(), [{ badgeKey: "fan", tier: 2 }]);
    must(await players.delete(`/players/${id}/badges/fan`), 200);
    assert.deepEqual(await badges(), []);
    must(await players.post(`/players/${id}/badges/fan`, { tier: 1 }), 201);
    assert.deepEqual(await badges(), [{ badgeKey: "fan", tier: 1 }]);
  });

  it("is listed newest first, by type, page by page, each line once", async () => {
    const { id } = await players.add();
    for (let i = 0; i < 6; i++) await players.xp(id, 100);
    const all: number[] = [];
    let cursor: string | null = "";
    while (cursor !== null) {
      const from: string = cursor === "" ? "" : `&cursor=${cursor}`;
      const { data, pagination } = must(await players.get(`/players/${id}/activity?limit=4${from}`), 200);
      all.push(...data.map(({ seq }: { seq: number }) => seq));
      cursor = pagination.nextCursor;
    }
    const { seq } = await players.read(id);
    assert.deepEqual(
      all,
      Array.from({ length: seq }, (_, i) => seq - i),
    );
    const { data } = must(
      await players.get(`/players/${id}/activity?types=player.level_up,player.created`),
      200,
    );
    assert.deepEqual(
      new Set(data.map(({ type }: { type: string }) => type)),
      new Set(["player.level_up", "player.created"]),
    );
    const many = Array.from({ length: 21 }, (_, i) => `t${i}`).join(",");
    assertError(await players.get(`/players/${id}/activity?types=${many}`), 400);
    assertError(await players.get(`/players/${id}/activity?cursor=0`), 400);
  });

  it("is summed up for a span, in the player's days", async () => {
    await players.define("currencies", { key: "coins", name: "Coins" });
    const { id } = await players.add({ timezone: "Asia/Tokyo" });
    await players.xp(id, 260);
    await players.post(`/players/${id}/xp`, { amount: -10 });
    await players.post(`/players/${id}/balances/coins/grant`, { amount: 7, reason: "x" });
    await players.post(`/players/${id}/balances/coins/spend`, { amount: 3, reason: "x" });
    const span = (from: number, to: number) =>
      `from=${new Date(from).toISOString()}&to=${new Date(to).toISOString()}`;
    const recap = (query: string) => players.get(`/players/${id}/recap?${query}`);
    const now = Date.now();
    const { bestDay, ...rest } = must(await recap(span(now - HOUR_MS, now + HOUR_MS)), 200);
    assert.equal(bestDay.xp, 260);
    assert.equal(bestDay.date, new Date(now + 9 * HOUR_MS).toISOString().slice(0, 10));
    const { xpGained, levelsGained, currencies, activeDays, timezone } = rest;
    assert.deepEqual([xpGained, levelsGained, activeDays, timezone], [260, 2, 1, "Asia/Tokyo"]);
    assert.deepEqual(currencies, [{ currencyKey: "coins", earned: 7, spent: 3 }]);
    const empty = must(await recap(span(now - 2 * DAY_MS, now - DAY_MS)), 200);
    assert.deepEqual([empty.xpGained, empty.bestDay, empty.currencies], [0, null, []]);
    for (const bad of [span(now, now), span(now, now - 1), span(now - 367 * DAY_MS, now), "from=x&to=y"])
      assertError(await recap(bad), 400);
  });

  it("is shown with a player as asked for, and nothing that is not there yet", async () => {
    await players.define("currencies", { key: "coins", name: "Coins", initialBalance: 25 });
    const { id } = await players.add();
    const shown = await players.read(
      `${id}?include=badges,streaks,segments,ranks,boosts,quests,adventures,identities`,
    );
    const { badges, streaks, segments, ranks, boosts, quests, adventures, identities } = shown;
    const lists = [badges, streaks, segments, ranks, boosts, quests, adventures];
    assert.deepEqual(lists, [[], [], [], [], [], [], []]);
    assert.equal(identities.length, 1);
    assert.deepEqual(shown.currencies, { coins: 25 });
    for (const bad of ["raffles", "xp", "badges,"])
      assertError(await players.get(`/players/${id}?include=${bad}`), 400);
  });
});
