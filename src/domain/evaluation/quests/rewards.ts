import type { Cause } from "../../kernel/events/events.ts";
import { isEmptyBundle, type RewardBundle } from "../rewards/bundle.ts";
import { grantBundle } from "../rewards/grant-bundle.ts";
import type { Turn } from "../turn.ts";
import type { CompiledQuest } from "./compile.ts";
import type { QuestRow } from "./row.ts";

/** Returns the cause of what a quest gives or takes. */
export const causeOf = ({ root }: Turn, { key }: CompiledQuest): Cause => ({
  kind: "QUEST",
  refKey: key,
  ...(root.isTracked ? { rootEventId: root.id } : {}),
});

/** Returns the key of what a row gives or takes: a cycle does so once, and again after a revert. */
export const rewardKey = ({ id, again }: QuestRow, what: string): string =>
  `q:${id}:${what}${again === undefined ? "" : `~${again}`}`;

/** Grants a bundle of a quest. Its key names the row, so that a cycle gives it once. */
export const giveRewards = (
  turn: Turn,
  quest: CompiledQuest,
  { bundle, row, what }: { bundle: RewardBundle; row: QuestRow; what: string },
): void => {
  if (isEmptyBundle(bundle)) return;
  const key = rewardKey(row, what);
  grantBundle(turn, { bundle, cause: causeOf(turn, quest), key, reason: `quest:${quest.key}` });
};
