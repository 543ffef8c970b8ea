import { publish } from "../../evaluation/emit.ts";
import { showAdventure } from "../../evaluation/adventures/show.ts";
import { storeAdventure } from "../../evaluation/adventures/progress.ts";
import type { PlanTurn } from "../../evaluation/project-plan.ts";
import type { Steps } from "../../kernel/slices.ts";
import type { PlayerRecord, Reversal } from "../record.ts";

/**
 * Takes back what the event has brought in adventures, and names what stays. To be called after quests. In
 * pieces.
 */
export function* reverseAdventures(turn: PlanTurn, { goals }: PlayerRecord, reversal: Reversal): Steps<void> {
  const { id: playerId, externalUserId } = turn.player;
  const now = { ...turn, event: { ...turn.event, at: turn.nowMs } };
  for (const { adventure, row, left } of goals.adventures) {
    yield;
    for (const what of left) reversal.left.add(what);
    storeAdventure(now, adventure, row);
    reversal.adventures.add(adventure.key);
    const shown = showAdventure(now, adventure);
    publish(now, "adventure.updated", { playerId, externalUserId, adventure: shown, change: "PROGRESS" });
  }
}
