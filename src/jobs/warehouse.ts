import type { App } from "../app.ts";
import { readSettledId } from "../domain/analytics/events.ts";
import {
  type Change,
  noteSearched,
  readChanges,
  readLedgerLines,
  readRewardLines,
  readRewardLinesOf,
  refsOf,
} from "../domain/analytics/warehouse/changes.ts";
import {
  endOfHour,
  type IdPage,
  type Line,
  type Part,
  PartWriter,
  readEventLines,
  readLinesOf,
  readMergeLines,
  restAfter,
  type Stream,
  STREAMS,
} from "../domain/analytics/warehouse/part.ts";
import {
  closeExport,
  failExport,
  findDueExports,
  findOwing,
  findPartsOf,
  forgetChanges,
  LeaseLost,
  leaveExport,
  openExport,
  owe,
  registerProjects,
  rewritePart,
  settle,
  type StoredPart,
} from "../domain/analytics/warehouse/progress.ts";
import {
  isOfFile,
  StoreError,
  type Warehouse,
  type WarehouseStore,
} from "../domain/analytics/warehouse/store.ts";
import { idFloor, timeOfId } from "../domain/kernel/ids.ts";
import { STEP } from "../domain/kernel/timeouts.ts";
import type { Work } from "../domain/kernel/work.ts";
import type { Job } from "./job.ts";
import { WarehouseTurn } from "./warehouse-turn.ts";

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
const rewriteFiles = async (
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
const rewriteOwing = async (turn: WarehouseTurn): Promise<void> => {
  const { projectId } = turn.export;
  const owing = await turn.transact((work) => findOwing(work, projectId));
  for (const stored of owing) {
    await rewriteOne(turn, stored, new Map());
    turn.checkReads();
  }
};

type Reader = {
  /** Up to where files may come. */
  limit(work: Work, projectId: string, lagMs: number): Promise<string>;
  read(work: Work, projectId: string, page: IdPage): Promise<Line[]>;
};

/** Nobody commits ids any more that are older. */
const settled: Reader["limit"] = async ({ serverNow }, _, lagMs) => idFloor(serverNow.getTime() - lagMs);

const READERS: Readonly<Record<Stream, Reader>> = {
  events: { limit: readSettledId, read: readEventLines },
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
    await this.#writeChanged("merges", readMergeLines);
    await this.#writeChanged("rewards", readRewardLinesOf);
    await this.#writeStreams();
    await this.#publish();
  }

  /** @returns whether there was something to write */
  async #writeNext(): Promise<boolean> {
    return (
      (await this.#tryChanges()) ||
      (await this.#writeChanged("merges", readMergeLines)) ||
      (await this.#writeChanged("rewards", readRewardLinesOf)) ||
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

  /** Writes a file of what has changed since. @returns whether there was something */
  async #writeChanged(
    kind: "merges" | "rewards",
    read: (work: Work, projectId: string, refs: ReturnType<typeof refsOf>) => Promise<Line[]>,
  ): Promise<boolean> {
    const {
      transact,
      export: { projectId, seq },
    } = this.#turn;
    const changes = await transact((work) => readChanges(work, this.#turn.export, kind));
    if (changes.length === 0) return false;
    const lines = await transact((work) => read(work, projectId, refsOf(changes)));
    const writer = new PartWriter();
    await writer.add(seq + 1, lines);
    await this.#finishChanges(writer, changes, kind);
    return true;
  }
}

const EVERY_MS = 15_000;
/** Projects that are looked for at once. */
const PROJECTS_AT_ONCE = 500;

/** Projects that fail by the store before the run ends: it would fail for others, and each takes its time. */
const FAILURES_MAX = 2;

/** What a turn of a project has come to: there is more to write, or not, or the store does not work. */
type TurnResult = "MORE" | "DONE" | "STORE_FAILED";

type GiveBack = typeof failExport | typeof leaveExport;

/** Gives a project back that was not ended; another worker may have it by then. */
const giveBack = async (app: App, turn: WarehouseTurn, how: GiveBack): Promise<void> => {
  if (await app.transact((work) => how(work, turn.export))) return;
  const { projectId } = turn.export;
  try {
    await turn.forsake();
  } catch (err) {
    app.log.warn({ err, projectId }, "a file that was begun is left in the warehouse");
  }
};

const exportProject = async (
  app: App,
  { store, lagMs, signal }: { store: WarehouseStore; lagMs: number; signal: AbortSignal },
  projectId: string,
): Promise<TurnResult> => {
  const opened = await app.transact((work) => openExport(work, projectId, lagMs));
  if (!opened) return "DONE";
  const turn = new WarehouseTurn(app, store, opened, signal);
  try {
    const isMore = await new WarehouseFiles(app, turn, lagMs).write();
    await app.transact((work) => closeExport(work, opened, isMore));
    return isMore ? "MORE" : "DONE";
  } catch (err) {
    if (signal.aborted) {
      await giveBack(app, turn, leaveExport);
      return "DONE";
    }
    if (err instanceof LeaseLost) app.log.warn({ projectId }, err.message);
    else {
      app.metrics.warehouse.failures.inc();
      app.log.error({ err, projectId, store: store.name }, "files for the warehouse could not be written");
    }
    await giveBack(app, turn, failExport);
    return err instanceof StoreError ? "STORE_FAILED" : "DONE";
  }
};

/** Gives projects that are due a turn. @returns whether one has more to write, or others may be due */
const exportDue = async (
  app: App,
  { everyMs, lagMs, store: open }: Warehouse,
  { signal, atOnce }: { signal: AbortSignal; atOnce: number },
): Promise<boolean> => {
  const asked = { everyMs, lagMs, limit: atOnce };
  const due = await app.transact((work) => findDueExports(work, asked));
  if (due.length === 0) return false;
  const store = await open();
  let [isMore, failures] = [due.length === atOnce, 0];
  for (const projectId of due) {
    if (signal.aborted) return false;
    const result = await exportProject(app, { store, lagMs, signal }, projectId);
    if (result === "STORE_FAILED" && ++failures === FAILURES_MAX) return false;
    isMore ||= result === "MORE";
    await app.limits.pause?.();
  }
  return isMore;
};

/**
 * Writes what came since into files for the warehouse, where there is one, for all projects that are due, of
 * which it looks for `atOnce` at a time. A process that stops gives its
 * project back at once, whatever the store is doing.
 */
export const createExportWarehouse = (atOnce = PROJECTS_AT_ONCE): Job => {
  const stopping = new AbortController();
  const { signal } = stopping;
  return {
    timeouts: STEP,
    everyMs: EVERY_MS,
    stop: () => stopping.abort(),
    run: async (app) => {
      const { warehouse } = app;
      if (!warehouse || signal.aborted) return;
      await app.transact(registerProjects);
      while (await exportDue(app, warehouse, { signal, atOnce }));
    },
  };
};
