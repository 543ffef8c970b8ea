import assert from "node:assert/strict";
import { mayHaveMoved, type Moved, type Standing } from "../../../src/domain/evaluation/boards/ranks.ts";

/** Whoever stands elsewhere than before had a score within what was said to have moved. */
export const checkMoved = (
  [before, after]: readonly [before: readonly Standing[], after: readonly Standing[]],
  moved: Moved | undefined,
): void => {
  const standings = new Map(after.map((standing) => [standing.playerId, standing]));
  for (const { playerId, rank, rankScore } of before) {
    const now = standings.get(playerId);
    if (now?.rank === rank && now.rankScore === rankScore) continue;
    const text = `${playerId}: ${rank} (${rankScore}) to ${now?.rank}, moved ${JSON.stringify(moved)}`;
    assert.ok(moved && mayHaveMoved(moved, rankScore), text);
  }
  if (after.some(({ playerId }) => !before.some((one) => one.playerId === playerId))) assert.ok(moved);
};
