import type { CompiledAdventure } from "../../evaluation/adventures/compile.ts";
import type { ItemDone } from "../../evaluation/adventures/row.ts";
import { isInPause, wasPausedAt } from "../../evaluation/pauses.ts";
import type { QuestCompletion } from "../record.ts";

/** What is left of an item, and how many of its completions are lost. */
type ItemLeft = { item: ItemDone | undefined; fewer: number };

const wasPaused = ({ pauses }: CompiledAdventure, atMs: number, by: string | undefined): boolean =>
  by === undefined ? wasPausedAt(pauses, atMs) : isInPause(pauses, by);

/** Returns an item without the completions that are lost. */
export const itemWithout = (
  adventure: CompiledAdventure,
  item: ItemDone,
  completions: readonly QuestCompletion[],
): ItemLeft => {
  const counted = completions.filter(
    ({ beforeMs, beforeBy }) => beforeMs >= item.doneMs && !wasPaused(adventure, beforeMs, beforeBy),
  );
  const rest = counted.flatMap(({ id, afterMs, afterBy }) =>
    afterMs === null || wasPaused(adventure, afterMs, afterBy) ? [] : [{ id, afterMs }],
  );
  const fewer = Math.min(item.times, counted.length - rest.length);
  const times = item.times - fewer;
  if (times === 0) return { item: undefined, fewer };
  const isFirst = counted.some(({ beforeMs }) => beforeMs === item.doneMs) && rest.length > 0;
  const doneMs = isFirst ? Math.min(...rest.map(({ afterMs }) => afterMs)) : item.doneMs;
  const isLastLost = counted.some(({ id, afterMs }) => id === item.last && afterMs === null);
  const last = rest.toSorted((a, b) => a.afterMs - b.afterMs).at(-1)?.id ?? "";
  return { item: { doneMs, times, last: isLastLost ? last : item.last }, fewer };
};

/** Returns whether completions have moved out of pauses: a revert gives nothing, so they do not count. */
export const wouldCount = (adventure: CompiledAdventure, completions: readonly QuestCompletion[]): boolean =>
  completions.some(
    ({ beforeMs, beforeBy, afterMs, afterBy }) =>
      afterMs !== null && wasPaused(adventure, beforeMs, beforeBy) && !wasPaused(adventure, afterMs, afterBy),
  );
