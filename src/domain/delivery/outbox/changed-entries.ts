import type { Events } from "../../kernel/events/domain-events.ts";
import type { EntryChange } from "../../kernel/events/events.ts";
import type { ChangedList } from "../../leaderboards/notices/notice-lists.ts";
import { periodTopic, type Topics } from "../../kernel/events/topics.ts";
import type { RankStore } from "../../evaluation/boards/ranks.ts";
import type { OutboxRow } from "./read-queue.ts";

/** The last change of each entry of a list, and the outbox rows that they and earlier ones came from. */
type ChangedEntries = {
  projectId: string;
  periodId: string;
  entries: Map<string, EntryChange>;
  rowIds: string[];
};

/** Whether a row is a change of boards. */
export const isOfRanks = ({ type }: Pick<OutboxRow, "type">): boolean =>
  type === "leaderboard.entries_changed";

/** The entries that rows of one round have changed: of each only the newest version, whatever came before. */
export class EntriesOfRound {
  readonly #periods = new Map<string, ChangedEntries>();
  #size = 0;

  /** Number of entries. */
  get size(): number {
    return this.#size;
  }

  /** The lists with changes. */
  get lists(): ChangedList[] {
    return [...this.#periods.values()].map(({ projectId, periodId, entries }) => ({
      projectId,
      periodId,
      playerIds: new Set(entries.keys()),
    }));
  }

  /** Ids of the rows that changed entries. */
  get rowIds(): ReadonlySet<string> {
    return new Set([...this.#periods.values()].flatMap(({ rowIds }) => rowIds));
  }

  /** Adds rows of any type, and ignores those that are no changes of boards. */
  add(rows: readonly OutboxRow[]): void {
    for (const row of rows.filter(isOfRanks)) {
      const { periodId, entries } = row.data as Events["leaderboard.entries_changed"];
      const period = this.#periods.get(periodId) ?? {
        projectId: row.project_id,
        periodId,
        entries: new Map<string, EntryChange>(),
        rowIds: [],
      };
      this.#periods.set(periodId, period);
      period.rowIds.push(row.id);
      const before = period.entries.size;
      for (const entry of entries) {
        const other = period.entries.get(entry[0]);
        if (!other || other[3] < entry[3]) period.entries.set(entry[0], entry);
      }
      this.#size += period.entries.size - before;
    }
  }

  /** Applies the entries to the rank index, and tells the boards' rooms where ranks have changed. */
  async apply({ ranks, topics }: { ranks: RankStore; topics: Topics }): Promise<void> {
    const applying = [...this.#periods.values()].map(async ({ projectId, periodId, entries }) => {
      const moved = await ranks.apply(projectId, periodId, [...entries.values()]);
      // A repetition moves nothing: if the first attempt died before this, rooms notice with their next read.
      if (moved) topics.publish(periodTopic(projectId, periodId), moved);
    });
    await Promise.all(applying);
  }
}
