import assert from "node:assert/strict";
import { settleDue } from "../../src/domain/economy/streaks/player-streaks.ts";
import { aPass, aPlan } from "../support/rules/plan.ts";
import { HOUR_MS, T } from "../support/streaks/streaks.ts";
import { aGame, noon } from "../support/streaks/streaks-game.ts";

describe("the sweep of streaks", () => {
  it("warns once of a period that ends soon, then settles the run that is over", () => {
    const game = aGame();
    game.hit(noon(1));
    const deadline = T("2026-01-03T00:00Z");
    game.told();
    assert.equal(game.streak.doc.dueMs, deadline - 4 * HOUR_MS);
    game.sweep(deadline - 4 * HOUR_MS - 1);
    assert.deepEqual(game.told(), []);
    game.sweep(deadline - 4 * HOUR_MS);
    game.sweep(deadline - HOUR_MS);
    const { id: playerId, externalUserId } = game.player;
    const deadlineAt = new Date(deadline).toISOString();
    const warning = { playerId, externalUserId, streakKey: "s", current: 1, deadlineAt, freezes: 0 };
    assert.deepEqual(game.told(), [["player.streak_at_risk", warning]]);
    assert.equal(game.streak.doc.dueMs, deadline);
    for (const _ of [1, 2]) game.sweep(deadline);
    assert.deepEqual(
      game.told().map(([type]) => type),
      ["player.streak_broken"],
    );
    assert.deepEqual([game.streak.current, game.streak.doc.dueMs], [0, undefined]);
  });

  for (const [period, last, hours] of [
    ["DAY", "2026-01-03T00:00Z", 4],
    ["WEEK", "2026-01-12T00:00Z", 24],
    ["MONTH", "2026-03-01T00:00Z", 72],
  ] as const) {
    it(`warns ${hours} hours before a ${period} ends`, () => {
      const game = aGame({ period });
      game.hit(noon(1));
      game.told();
      game.sweep(T(last) - hours * HOUR_MS - 1);
      assert.deepEqual(game.types(), []);
      game.sweep(T(last) - hours * HOUR_MS);
      assert.deepEqual(game.types(), ["player.streak_at_risk"]);
    });
  }

  it("settles a run when its time of grace is over, however late it was written", () => {
    const deadline = T("2026-01-03T00:00Z");
    for (const writtenAt of [noon(1), deadline + 1]) {
      const game = aGame({ graceSeconds: 3_600 });
      game.hit(noon(1), writtenAt);
      for (const at of [deadline - HOUR_MS, deadline + HOUR_MS - 1]) game.sweep(at);
      assert.deepEqual([game.streak.current, game.streak.doc.dueMs], [1, deadline + HOUR_MS]);
      game.sweep(deadline + HOUR_MS);
      assert.equal(game.streak.current, 0);
    }
  });

  it("warns of the next period anew after a freeze was used", () => {
    const game = aGame({ freeze: { initial: 1 } });
    game.hit(noon(1));
    const sweeps = [2, 3, 4].flatMap((day) => [noon(day) + 9 * HOUR_MS, noon(day) + 12 * HOUR_MS]);
    game.told();
    for (const at of sweeps) game.sweep(at);
    assert.deepEqual(
      game.told().map(([type]) => type.replace("player.streak_", "")),
      ["at_risk", "frozen", "at_risk", "broken"],
    );
  });

  it("warns nobody who has done the period", () => {
    const game = aGame();
    game.hit(noon(1));
    game.hit(noon(2));
    game.told();
    game.sweep(noon(2) + 11 * HOUR_MS);
    assert.deepEqual(game.told(), []);
  });

  it("waits while history comes in, and lets what comes after it count", () => {
    const now = T("2026-06-15T12:00Z");
    const game = aGame({ freeze: { initial: 2 } });
    for (const day of [1, 2]) game.hit(noon(day), now);
    game.told();
    game.sweep(now + 599_999);
    assert.deepEqual(game.told(), []);
    game.sweep(now + 600_000);
    assert.deepEqual(
      game.told().map(([type]) => type.slice(14)),
      ["frozen", "frozen", "broken"],
    );
    game.hit(noon(3), now + 700_000);
    assert.deepEqual([game.streak.current, game.streak.freezes], [3, 2]);
  });

  it("lets go of streaks that are no more", () => {
    const game = aGame();
    game.hit(noon(1));
    const { turn } = aPass({ plan: aPlan(), player: game.player, nowMs: noon(9) });
    settleDue(turn, "s");
    assert.deepEqual([game.streak.doc.dueMs, game.streak.current], [undefined, 1]);
  });
});
