import type { EventData } from "../kernel/events/domain-events.ts";
import type { Reversal, RevertedEvent } from "./record.ts";

export const ON_SHORTFALL = ["CLAMP", "REJECT"] as const;

/** How events are reverted. */
export type HowToRevert = {
  reason: string;
  /** What happens when granted amounts are no longer there: take back what is left, or nothing at all. */
  onShortfall: (typeof ON_SHORTFALL)[number];
  actor: string;
};

/** What the revert of one event has changed. */
export type RevertResult = {
  eventId: string;
  /** False if the event had been reverted before. */
  isReverted: boolean;
  reversed: EventData<"event.reverted">["reversed"];
  lives: number;
  /** Keys of the adventures whose progress has been taken back. */
  adventures: string[];
  streaks: string[];
  shortfall: Record<string, number>;
  /** Number of pending actions on other players or for later times that were cancelled. */
  cancelled: number;
  players: number;
  /** Effects that remain. */
  left: string[];
};

/** Returns the result of reverting one event. */
export const resultOf = (
  { id: eventId }: RevertedEvent,
  reversal: Reversal,
  more: Pick<RevertResult, "isReverted" | "players" | "cancelled">,
): RevertResult => ({
  eventId,
  reversed: reversedOf(reversal),
  lives: reversal.lives,
  adventures: [...reversal.adventures].toSorted(),
  streaks: [...reversal.streaks].toSorted(),
  shortfall: reversal.shortfall,
  left: [...reversal.left].toSorted(),
  ...more,
});

/** Returns what was reverted, as it is told. */
export const reversedOf = ({
  xp,
  currencies,
  badges,
  quests,
  scores,
}: Reversal): RevertResult["reversed"] => ({
  xp,
  currencies,
  badges: [...badges].toSorted(),
  quests: [...quests].toSorted(),
  scores: [...scores].toSorted(),
});
