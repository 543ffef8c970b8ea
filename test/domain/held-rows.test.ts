import assert from "node:assert/strict";
import type { PlayerState } from "../../src/domain/evaluation/player-state.ts";
import { emptyHoldings } from "../../src/domain/progression/load.ts";
import { balances, streaks } from "../../src/domain/progression/parts/part.ts";
import { adventures } from "../../src/domain/progression/parts/quests.ts";

describe("holdings that are rows of a table", () => {
  const place = { p: "project", i: "player", k: "key" };
  const holding = (name: "balances" | "streaks" | "adventures", value: object): PlayerState => {
    const player = { projectId: "project", id: "player", ...emptyHoldings() } as unknown as PlayerState;
    (player[name] as Map<string, unknown>).set("key", value);
    player.dirty[name].add("key");
    return player;
  };
  const rowsOf = (part: typeof balances, player: PlayerState) =>
    part.arms([player]).flatMap(({ rows }) => rows);

  it("are written with their place, and with what the sweep looks for", () => {
    const balance = { balance: 3, held: 1, earned: 4, spent: 1 };
    assert.deepEqual(rowsOf(balances, holding("balances", balance)), [{ ...place, ...balance }]);
    const streak = { current: 2, longest: 2, freezes: 0, deadlineMs: 9, doc: { dueMs: 7 } };
    assert.deepEqual(rowsOf(streaks, holding("streaks", streak)), [{ ...place, ...streak, dueMs: 7 }]);
  });

  it("are not written where they have not changed, and keep in a document what has no column", () => {
    const row = { id: "a", state: "JOINED", items: {}, unlocked: [], tiers: {}, isAuto: false, again: null };
    const { id, state, ...doc } = row;
    assert.deepEqual(rowsOf(adventures, holding("adventures", row)), []);
    const changed = holding("adventures", { ...row, isChanged: true });
    assert.deepEqual(rowsOf(adventures, changed), [{ ...place, id, state, doc }]);
  });
});
