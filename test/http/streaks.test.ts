import assert from "node:assert/strict";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { settleStreaks } from "../../src/jobs/jobs.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { DAY_MS, HOUR_MS } from "../support/streaks/streaks.ts";
import { dateOf, today } from "../support/streaks/real-days.ts";
import { streaksByApi } from "../support/streaks/by-api.ts";
import { pluck } from "../support/pluck.ts";

describe("streaks of players", () => {
  const { api, tenant, player, make, define, doneAgo, act } = streaksByApi();

  before(async () => {
    await make("/currencies", { key: "coins", name: "Coins" });
    await define("daily", {
      freeze: { max: 3 },
      repairWindowHours: 72,
      repairCost: { currencyKey: "coins", amount: 50 },
      milestones: [{ length: 3, rewards: { currencies: { coins: 10 } } }],
    });
    await define("kept", { repairWindowHours: 72, freeze: { initial: 2, autoUse: false } });
    await define("weekly", { period: "WEEK" });
    await define("wins", { mode: "CONSECUTIVE", breakOn: { eventTypes: ["lost"] } });
  });
  const list = async () =>
    must(await api.get(`/api/v1/players/${player.id}/streaks`, { key: tenant.key }), 200).data;
  const get = async (key: string) => (await list()).find(({ streakKey }: Json) => streakKey === key);
  const told = async () => {
    const rows = await api.sql<{ type: string }>`
      select type from outbox where player_id = ${player.id} and type like 'player.streak%'
        and data->>'streakKey' = 'daily' order by player_seq`;
    return rows.map(({ type }) => type.slice("player.streak_".length));
  };

  it("are listed with those that have not begun", async () => {
    const data = await list();
    assert.deepEqual(pluck(data, "streakKey", "status"), [
      ["daily", "NONE"],
      ["kept", "NONE"],
      ["weekly", "NONE"],
      ["wins", "NONE"],
    ]);
    assert.deepEqual(data[1], {
      streakKey: "kept",
      name: "kept",
      current: 0,
      longest: 0,
      status: "NONE",
      doneThisPeriod: false,
      periodProgress: [{ value: 0, target: 1 }],
      deadlineAt: null,
      freezes: 2,
      maxFreezes: 2,
      startedOn: null,
      lastPeriod: null,
      frozenPeriods: [],
      repairableUntil: null,
      lostLength: null,
    });
  });

  it("grow with events, and are shown as they are now", async () => {
    for (const days of [3, 2, 1]) await doneAgo(days);
    const yesterday = await get("daily");
    assert.deepEqual(
      [yesterday.current, yesterday.doneThisPeriod, yesterday.lastPeriod],
      [3, false, dateOf(1)],
    );
    assert.equal(yesterday.deadlineAt, new Date(today() + DAY_MS).toISOString());
    assert.ok(["ACTIVE", "AT_RISK"].includes(yesterday.status));
    await doneAgo(0);
    const { current, longest, status, doneThisPeriod, startedOn, periodProgress } = await get("daily");
    assert.deepEqual([current, longest, status, doneThisPeriod], [4, 4, "ACTIVE", true]);
    assert.deepEqual([startedOn, periodProgress], [dateOf(3), [{ value: 1, target: 1 }]]);
    const { currencies } = must(await api.get(`/api/v1/players/${player.id}`, { key: tenant.key }), 200);
    assert.equal(currencies.coins, 10, "the milestone's reward");
    assert.equal((await get("wins")).current, 4);
  });

  it("are shown as broken before anybody has settled them, and told when the sweep comes", async () => {
    for (const days of [6, 5]) await doneAgo(days);
    const { current, longest, status, lostLength, repairableUntil } = await get("daily");
    assert.deepEqual([current, longest, status, lostLength], [0, 2, "BROKEN", 2]);
    assert.equal(repairableUntil, null, "72 hours after the 4th last day are over");
    assert.deepEqual(await told(), ["extended", "extended"], "reading tells nothing");
    // Nothing comes any more: the time in which more history might come is over.
    await api.sql`update player_streaks set due_at = now() - interval '1 s', doc = doc || '{"dueMs": 1}'
      where player_id = ${player.id}`;
    await Promise.all([settleStreaks.run(api.app, "*"), settleStreaks.run(api.app, "*")]);
    assert.deepEqual(await told(), ["extended", "extended", "broken"]);
    await settleStreaks.run(api.app, "*");
    assert.deepEqual(await told(), ["extended", "extended", "broken"]);
    assert.equal((await get("daily")).status, "BROKEN");
  });

  describe("freezes", () => {
    it("are given up to the maximum, and keep the run", async () => {
      assert.equal((await act("daily", "freezes", { amount: 1 })).body.freezes, 1);
      const given = must(await act("daily", "freezes", { amount: 100 }), 200);
      assert.deepEqual([given.freezes, given.maxFreezes, given.status], [3, 3, "NONE"]);
      for (const days of [4, 2]) await doneAgo(days);
      const { current, freezes, frozenPeriods } = await get("daily");
      // Yesterday was missed too.
      assert.deepEqual([current, freezes, frozenPeriods], [2, 1, [dateOf(3), dateOf(1)]]);
    });

    it("are refused where there are none, and to a player who is not active", async () => {
      assertError(await act("weekly", "freezes", { amount: 1 }), 409, "INVALID_STATE");
      assertError(await act("nothing", "freezes", { amount: 1 }), 404);
      await api.sql`update players set status = 'SUSPENDED' where id = ${player.id}`;
      assertError(await act("daily", "freezes", { amount: 1 }), 409, "PLAYER_INACTIVE");
      assertError(await act("daily", "repair"), 409, "PLAYER_INACTIVE");
    });
  });

  describe("a repair", () => {
    it("is free for who runs the project, and leaves today to do", async () => {
      for (const days of [4, 3]) await doneAgo(days);
      const until = (await get("daily")).repairableUntil;
      assert.equal(until, new Date(today() - DAY_MS + 72 * HOUR_MS).toISOString());
      const repaired = must(await act("daily", "repair"), 200);
      assert.deepEqual([repaired.current, repaired.lostLength], [2, null]);
      assert.deepEqual(repaired.frozenPeriods, [dateOf(2), dateOf(1)]);
      assert.equal(repaired.deadlineAt, new Date(today() + DAY_MS).toISOString());
      assert.deepEqual(await told(), ["extended", "extended", "broken", "repaired"]);
      await doneAgo(0);
      assert.equal((await get("daily")).current, 3);
      assertError(await act("daily", "repair"), 409, "INVALID_STATE");
    });

    it("takes its price with pay, or nothing and 409 when there is not enough", async () => {
      await doneAgo(2);
      assertError(await act("daily", "repair", { pay: true }), 409, "INSUFFICIENT_FUNDS");
      assert.equal((await get("daily")).current, 0);
      await make(`/players/${player.id}/balances/coins/grant`, { amount: 60, reason: "test" });
      assert.equal(must(await act("daily", "repair", { pay: true }), 200).current, 1);
      const { currencies } = must(await api.get(`/api/v1/players/${player.id}`, { key: tenant.key }), 200);
      assert.equal(currencies.coins, 10);
    });

    it("takes freezes that are not used by themselves, one for each missed period", async () => {
      await doneAgo(3);
      assertError(await act("weekly", "repair"), 409, "INVALID_STATE");
      const { current, freezes } = must(await act("kept", "repair", { pay: true }), 200);
      assert.deepEqual([current, freezes], [1, 0]);
    });

    it("without a price cannot be paid", async () => {
      await doneAgo(4);
      assertError(await act("kept", "repair", { pay: true }), 409, "INVALID_STATE");
    });
  });

  it("end with a reset, for good", async () => {
    for (const days of [2, 1]) await doneAgo(days);
    const { current, longest, status, startedOn } = must(await act("daily", "reset"), 200);
    assert.deepEqual([current, longest, status, startedOn], [0, 2, "NONE", null]);
    assertError(await act("daily", "repair"), 409, "INVALID_STATE");
    assert.deepEqual(await told(), ["extended", "extended", "broken"]);
    await doneAgo(0);
    assert.equal((await get("daily")).current, 1);
    assert.equal(must(await act("wins", "reset"), 200).current, 0);
  });
});
