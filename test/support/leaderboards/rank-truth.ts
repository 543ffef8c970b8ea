import type { EntryChange } from "../../../src/domain/kernel/events/events.ts";
import type { EntrySource } from "../../../src/domain/evaluation/boards/ranks.ts";

/** The rows that `leaderboard_entries` would hold; a read is a snapshot of each page when it is read. */
export const aTruth = () => {
  const rows = new Map<string, EntryChange>();
  const truth = { rows, reads: 0, beforePage: async (): Promise<void> => undefined };
  const source: EntrySource = async function* () {
    truth.reads++;
    let after = "";
    for (;;) {
      await truth.beforePage();
      const page = [...rows.values()]
        .filter(([id]) => id > after)
        .toSorted(([a], [b]) => (a < b ? -1 : 1))
        .slice(0, 150);
      yield page;
      if (page.length < 150) return;
      after = page.at(-1)![0];
    }
  };
  return { truth, source };
};

/** Commits an entry with the next version and answers what the relay would apply. */
export const commit = (
  rows: Map<string, EntryChange>,
  playerId: string,
  rankScore: number,
  rankTie = 0,
): EntryChange => {
  const entry: EntryChange = [playerId, rankScore, rankTie, (rows.get(playerId)?.[3] ?? 0) + 1];
  rows.set(playerId, entry);
  return entry;
};

export const aPlayerId = (n: number): string => `00000000-0000-7000-8000-${n.toString(16).padStart(12, "0")}`;
