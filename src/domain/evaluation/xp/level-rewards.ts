import { grantBundle } from "../rewards/grant-bundle.ts";
import type { PlayerDoc } from "../player-state.ts";
import type { Turn } from "../turn.ts";

/** A reward that was reversed can be granted again, under another key. */
const levelKey = ({ r }: PlayerDoc, level: number): string => {
  const times = r?.[level];
  return times === undefined ? `lvl:${level}` : `lvl:${level}~${times}`;
};

/**
 * Grants the rewards of the levels from `from + 1` to `to`. Each is granted only once: a level that was
 * reached, lost and reached again grants nothing the second time (ledger key `lvl:{n}`). A level without a
 * definition when it is reached grants nothing later either.
 */
export const grantLevelRewards = (turn: Turn, from: number, to: number): void => {
  const { player, project, root } = turn;
  if (project.levels.size === 0) return;
  const rewarded = Math.max(from, player.doc.v ?? 0);
  if (to <= rewarded) return;
  // First of all, so that a level reached through these rewards is not considered unrewarded.
  player.doc = { ...player.doc, v: to };
  player.dirty.doc = true;
  for (let level = rewarded + 1; level <= to; level++) {
    const definition = project.levels.get(level);
    if (!definition) continue;
    const origin = root.isTracked ? { rootEventId: root.id } : {};
    grantBundle(turn, {
      bundle: definition.rewards,
      cause: { kind: "LEVEL", refKey: String(level), ...origin },
      key: levelKey(player.doc, level),
      reason: `level:${level}`,
    });
  }
};
