import { sql } from "kysely";
import { changeFreePlayers, type PlayersOf } from "../../progression/change-free-players.ts";
import { clearDueOfMerged } from "../../progression/merged-due.ts";
import type { Turn } from "../../evaluation/turn.ts";
import type { Work } from "../../kernel/work.ts";
import { settledAt } from "../../evaluation/streaks/advance.ts";
import { announce, storeStreak } from "../../evaluation/streaks/announce.ts";
import type { CompiledStreak } from "../../evaluation/streaks/compile.ts";
import type { Streak } from "../../evaluation/streaks/state.ts";

/** The table whose due rows are processed: see findDue. */
export const DUE_STREAKS = {
  table: "player_streaks",
  column: "due_at",
  where: sql`due_at is not null`,
} as const;

/** Warns players whose runs end soon, once per period, and settles the runs that are over. Idempotent. */
export const settlePlayersStreaks = async (work: Work, players: PlayersOf): Promise<void> => {
  await changeFreePlayers(work, players, {}, (turn) => {
    for (const key of turn.player.streaks.keys()) settleDue(turn, key);
  });
  await clearDueOfMerged(work, "player_streaks", players);
};

/** Settles one streak of a player up to now. */
export const settleDue = (turn: Turn, key: string): void => {
  const { player, project, nowMs } = turn;
  const stored = player.streaks.get(key) as Streak;
  if (stored.doc.dueMs === undefined || stored.doc.dueMs > nowMs) return;
  const streak = project.streaks.get(key);
  if (!streak || player.status === "ERASED") {
    const { dueMs: _over, ...doc } = stored.doc;
    player.streaks.set(key, { ...stored, doc });
    player.dirty.streaks.add(key);
    return;
  }
  const { state, steps } = settledAt(streak, turn, nowMs);
  const isWarned = isAtRisk(streak, state, nowMs) && state.doc.warned !== state.deadlineMs;
  storeStreak(
    turn,
    streak,
    isWarned ? { ...state, doc: { ...state.doc, warned: state.deadlineMs! } } : state,
  );
  announce(turn, streak, steps);
  if (!isWarned) return;
  turn.emit("player.streak_at_risk", {
    playerId: player.id,
    externalUserId: player.externalUserId,
    streakKey: key,
    current: state.current,
    deadlineAt: new Date(state.deadlineMs!).toISOString(),
    freezes: state.freezes,
  });
};

/** Whether a run ends soon unless its player acts: the current period is not completed. */
export const isAtRisk = ({ riskMs }: CompiledStreak, { deadlineMs }: Streak, nowMs: number): boolean =>
  deadlineMs !== null && deadlineMs > nowMs && deadlineMs - nowMs <= riskMs;
