import { readLinesOf, type Line, restAfter } from "../domain/analytics/warehouse/records.ts";
import {
  findOwing,
  findPartsOf,
  owe,
  rewritePart,
  settle,
  type StoredPart,
} from "../domain/analytics/warehouse/rewrite.ts";
import { isOfFile, StoreError } from "../domain/analytics/warehouse/store.ts";
import type { Part } from "../domain/analytics/warehouse/part.ts";
import type { WarehouseTurn } from "./warehouse-turn.ts";

type Records = ReadonlyMap<string, Line>;

const recordsOf = async (turn: WarehouseTurn, eventIds: readonly string[]): Promise<Records> => {
  const { projectId } = turn.export;
  const records = new Map<string, Line>();
  for (let left = eventIds; left.length > 0;) {
    const ids = left;
    const lines = await turn.transact((work) => readLinesOf(work, projectId, ids));
    for (const line of lines) records.set(line.id, line);
    left = restAfter(left, lines);
  }
  return records;
};

/**
 * Reads a file and makes it anew, also without the erased events that it owes from before. A file that
 * somebody has removed holds nothing of anybody.
 */
const madeAnew = async (
  turn: WarehouseTurn,
  stored: StoredPart,
  records: Records,
): Promise<Part | undefined> => {
  const body = await turn.read(stored.path);
  if (!body) return undefined;
  const owed = stored.owed.length === 0 ? [] : await recordsOf(turn, stored.owed.toSorted());
  const { projectId, lease } = turn.export;
  return rewritePart({ ...stored, projectId, lease }, body, new Map([...owed, ...records]));
};

/** Makes a file anew if it has records of erased events. One that cannot be read is noted. */
const rewriteOne = async (turn: WarehouseTurn, stored: StoredPart, records: Records): Promise<void> => {
  const { seq } = stored;
  let part: Part | undefined;
  try {
    part = await madeAnew(turn, stored, records);
  } catch (error) {
    if (!isOfFile(error)) throw error;
    turn.refuseRead(error);
    const owed = { seq, eventIds: [...records.keys()] };
    await turn.transact((work) => owe(work, turn.export, owed));
    return;
  }
  if (part) await turn.finish({ part, replaces: seq });
  else if (stored.owed.length > 0) await turn.transact((work) => settle(work, turn.export, seq));
};

/** The file up to which all were searched before the search ended, and what ended it if not the turn. */
type Searched = { upTo: number; fault?: StoreError };

/**
 * Makes the files anew that have records of erased events: what identified a person is in none of them.
 * @param after the file up to which all were searched before
 * @returns undefined once all were searched; else how far it came, as far as the turn or the store allowed
 */
export const rewriteFiles = async (
  turn: WarehouseTurn,
  eventIds: readonly string[],
  after: number,
): Promise<Searched | undefined> => {
  if (eventIds.length === 0) return undefined;
  const { projectId, seq: upTo } = turn.export;
  const records = await recordsOf(turn, eventIds);
  let searched = after;
  try {
    for (;;) {
      const page = { eventIds, after: searched, upTo };
      const parts = await turn.transact((work) => findPartsOf(work, projectId, page));
      if (parts.length === 0) return undefined;
      for (const stored of parts) {
        if (turn.isOver) return { upTo: searched };
        await rewriteOne(turn, stored, records);
        searched = stored.seq;
        turn.checkReads();
      }
      await turn.publish();
      await turn.removeReplaced();
    }
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    return { upTo: searched, fault: error };
  }
};

/** Tries files again that could not be read when they were to be made anew. @throws StoreError */
export const rewriteOwing = async (turn: WarehouseTurn): Promise<void> => {
  const { projectId } = turn.export;
  const owing = await turn.transact((work) => findOwing(work, projectId));
  for (const stored of owing) {
    await rewriteOne(turn, stored, new Map());
    turn.checkReads();
  }
};
