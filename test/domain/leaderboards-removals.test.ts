import assert from "node:assert/strict";
import { leaveList, removedVersion } from "../../src/domain/evaluation/boards/lists.ts";
import { aPlayerState } from "../support/rules/plan.ts";

describe("removals from boards", () => {
  it("are never forgotten: who enters again has a higher version than before, on however many boards", () => {
    const player = aPlayerState();
    const removed = new Map<string, number>();
    for (let round = 0; round < 2; round++)
      for (let i = 0; i < 250; i++) {
        const id = `list-${(i * 7) % 250}`;
        const version = (removedVersion(player.doc, id) ?? 0) + 1;
        assert.ok(version > (removed.get(id) ?? 0), `${id}: ${version}`);
        player.entries.set(id, { rankScore: 1, rankTie: 1, latestUs: 1, version });
        leaveList(player, id);
        removed.set(id, version + 1);
      }
    assert.equal(removed.size, 250);
    assert.ok(Object.keys(player.doc.z!).length <= 101);
  });
});
