import type { App } from "../app.ts";
import {
  type Change,
  noteSearched,
  readChanges,
  readExportLimit,
  refsOf,
} from "../domain/analytics/warehouse/changes.ts";
import { readLedgerLines, readRewardLines, readRewardLinesOf } from "../domain/analytics/warehouse/given.ts";
import {
  endOfHour,
  type Part,
  PartWriter,
  type Stream,
  STREAMS,
} from "../domain/analytics/warehouse/part.ts";
import { forgetChanges } from "../domain/analytics/warehouse/progress.ts";
import {
  type IdPage,
  type Line,
  readEventLines,
  readLinesOf,
  readMergeLines,
  restAfter,
} from "../domain/analytics/warehouse/records.ts";
import { StoreError } from "../domain/analytics/warehouse/store.ts";
import { idFloor, timeOfId } from "../domain/kernel/ids.ts";
import type { Work } from "../domain/kernel/work.ts";
import { rewriteFiles, rewriteOwing } from "./warehouse-rewrites.ts";
import type { WarehouseTurn } from "./warehouse-turn.ts";

type Reader = {
  /** Up to where files may come. */
  limit(work: Work, projectId: string, lagMs: number): Promise<string>;
  read(work: Work, projectId: string, page: IdPage): Promise<Line[]>;
};

/** Nobody commits ids any more that are older. */
const settled: Reader["limit"] = async ({ serverNow }, _, lagMs) => idFloor(serverNow.getTime() - lagMs);

const READERS: Readonly<Record<Stream, Reader>> = {
  events: { limit: readExportLimit, read: readEventLines },
  ledger: { limit: settled, read: readLedgerLines },
  rewards: { limit: settled, read: readRewardLines },
};

/** Steps of one turn: some write no file. */
const STEPS_AT_ONCE = 20;

/** Writes the files of one project, and the entries of the manifest that list them. */
export class WarehouseFiles {
  readonly #app: App;
  readonly #turn: WarehouseTurn;
  readonly #lagMs: number;
  /** What keeps changes from being written in this turn. */
  #fault: StoreError | undefined;
  /** Whether this turn has come to new events, or to that there are none. */
  #hasCome = false;

  /** @param lagMs events younger than this are left */
  constructor(app: App, turn: WarehouseTurn, lagMs: number) {
    this.#app = app;
    this.#turn = turn;
    this.#lagMs = lagMs;
  }

  /**
   * Writes what there is to write, as much as one turn may.
   * @returns whether there is more
   * @throws StoreError, LeaseLost, PlaceTaken
   */
  async write(): Promise<boolean> {
    await this.#turn.removeBegun();
    await this.#turn.checkEmpty();
    await this.#publish();
    let isMore = true;
    for (let steps = 0; isMore && steps < STEPS_AT_ONCE && !this.#turn.isOver; steps++) {
      await this.#app.limits.pause?.();
      isMore = await this.#writeNext();
      await this.#publish();
    }
    if (!this.#hasCome) await this.#writeNew();
    await rewriteOwing(this.#turn);
    await this.#publish();
    if (this.#fault) throw this.#fault;
    return isMore;
  }

  async #publish(): Promise<void> {
    await this.#turn.publish();
    await this.#turn.removeReplaced();
  }

  /** Writes one file of each kind that is new, where old files took all of a turn. */
  async #writeNew(): Promise<void> {
    await this.#writeMerges();
    await this.#writeChangedRewards();
    await this.#writeStreams();
    await this.#publish();
  }

  /** @returns whether there was something to write */
  async #writeNext(): Promise<boolean> {
    return (
      (await this.#tryChanges()) ||
      (await this.#writeMerges()) ||
      (await this.#writeChangedRewards()) ||
      (await this.#writeStreams())
    );
  }

  /** Writes the next file of each stream. @returns whether there was one */
  async #writeStreams(): Promise<boolean> {
    this.#hasCome = true;
    let isMore = false;
    for (const stream of STREAMS) isMore = (await this.#writeStream(stream)) || isMore;
    return isMore;
  }

  /** Where the store fails over an old file, new events are written nevertheless. */
  async #tryChanges(): Promise<boolean> {
    if (this.#fault) return false;
    try {
      return await this.#writeChanges();
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      this.#fault = error;
      await this.#turn.removeBegun();
      return false;
    }
  }

  /** Writes the next file of a stream. @returns whether there was one */
  async #writeStream(stream: Stream): Promise<boolean> {
    const {
      transact,
      export: { projectId, lease, cursors, seq },
    } = this.#turn;
    const { limit, read } = READERS[stream];
    const writer = new PartWriter();
    let after = cursors[stream];
    let until = await transact((work) => limit(work, projectId, this.#lagMs));
    while (!writer.isFull) {
      const page = { after, until };
      const lines = await transact((work) => read(work, projectId, page));
      // A file is of one hour.
      const end = idFloor(endOfHour(writer.rows === 0 ? (lines[0]?.id ?? until) : after));
      if (end < until) until = end;
      const own = lines.filter(({ id }) => id < until);
      if (own.length === 0) break;
      await writer.add(seq + 1, own);
      after = own.at(-1)!.id;
      await this.#app.limits.pause?.();
    }
    if (writer.rows === 0) return false;
    const part = await writer.end(stream, { projectId, lease, atMs: timeOfId(after) });
    await this.#turn.finish({ part, cursors: { [stream]: after } });
    return true;
  }

  /** Writes the next file of what has changed since. @returns whether there was something */
  async #writeChanges(): Promise<boolean> {
    const {
      transact,
      export: { projectId },
    } = this.#turn;
    const changes = await transact((work) => readChanges(work, this.#turn.export, "events"));
    if (changes.length === 0) return false;
    const erased = refsOf(changes.filter(({ isErased }) => isErased));
    const searched = await rewriteFiles(this.#turn, erased, changes[0]!.searched);
    if (searched) {
      const { upTo, fault } = searched;
      await transact((work) => noteSearched(work, projectId, { changes, upTo }));
      if (fault) throw fault;
      return true;
    }
    const writer = new PartWriter();
    const version = this.#turn.export.seq + 1;
    let left = refsOf(changes);
    while (left.length > 0 && !writer.isFull) {
      const ids = left;
      const lines = await transact((work) => readLinesOf(work, projectId, ids));
      await writer.add(version, lines);
      left = restAfter(left, lines);
    }
    const later = new Set(left);
    const told = changes.filter(({ ref }) => !later.has(ref));
    await this.#finishChanges(writer, told, "changes");
    return true;
  }

  async #finishChanges(writer: PartWriter, told: readonly Change[], kind: Part["kind"]): Promise<void> {
    const {
      transact,
      export: { projectId, lease },
    } = this.#turn;
    const changes = told.map(({ seq }) => seq);
    if (writer.rows === 0) {
      await transact((work) => forgetChanges(work, projectId, changes));
      return;
    }
    const atMs = this.#app.clock().getTime();
    const part = await writer.end(kind, { projectId, lease, atMs });
    await this.#turn.finish({ part, changes });
  }

  async #writeMerges(): Promise<boolean> {
    const {
      transact,
      export: { projectId, seq },
    } = this.#turn;
    const changes = await transact((work) => readChanges(work, this.#turn.export, "merges"));
    if (changes.length === 0) return false;
    const lines = await transact((work) => readMergeLines(work, projectId, refsOf(changes)));
    const writer = new PartWriter();
    await writer.add(seq + 1, lines);
    await this.#finishChanges(writer, changes, "merges");
    return true;
  }

  /** Writes a file of grants of rewards that have changed since. @returns whether there was something */
  async #writeChangedRewards(): Promise<boolean> {
    const {
      transact,
      export: { projectId, seq },
    } = this.#turn;
    const changes = await transact((work) => readChanges(work, this.#turn.export, "rewards"));
    if (changes.length === 0) return false;
    const lines = await transact((work) => readRewardLinesOf(work, projectId, refsOf(changes)));
    const writer = new PartWriter();
    await writer.add(seq + 1, lines);
    await this.#finishChanges(writer, changes, "rewards");
    return true;
  }
}
