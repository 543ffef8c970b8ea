import type { App } from "../app.ts";
import { firstEntryOf, readEntries } from "../domain/analytics/warehouse/manifest.ts";
import {
  isOfFile,
  PlaceTaken,
  StoreError,
  type WarehouseStore,
} from "../domain/analytics/warehouse/store.ts";
import {
  beginPart,
  type Export,
  findReplaced,
  type Finished,
  finishPart,
  isListed,
  keepLease,
  noteRemoved,
  publishedUpTo,
} from "../domain/analytics/warehouse/progress.ts";
import type { Transact } from "../domain/kernel/work.ts";

/** Files of a project that one turn writes, and that it reads to write them anew; then others have theirs. */
const FILES_AT_ONCE = 20;
const READ_AT_ONCE = 100;
/** Files in a row that the store refuses: then it is the store. */
const REFUSALS_MAX = 2;

/** A turn of one project: what it stores, lists and removes, and how much it may do. */
export class WarehouseTurn {
  readonly #app: App;
  readonly #store: WarehouseStore;
  readonly #signal: AbortSignal | undefined;
  #export: Export;
  #written = 0;
  #read = 0;
  /** Files in a row that the store refused to give or to remove. */
  #refusals = { read: 0, removed: 0 };
  /** A file that this turn has begun and not listed. */
  #begun: string | undefined;

  /**
   * @param opened the project, which this worker holds
   * @param signal ends the turn, wherever it is; what it has stored and not listed is removed by the next one
   */
  constructor(app: App, store: WarehouseStore, opened: Export, signal?: AbortSignal) {
    this.#app = app;
    this.#store = store;
    this.#export = opened;
    this.#signal = signal;
  }

  /** Of the next step. @throws where the turn is to end */
  get transact(): Transact {
    this.#signal?.throwIfAborted();
    return this.#app.transact;
  }

  get export(): Export {
    return this.#export;
  }

  /** Whether it has done as much as one turn may. */
  get isOver(): boolean {
    return this.#written >= FILES_AT_ONCE || this.#read >= READ_AT_ONCE;
  }

  /**
   * Where nothing was ever listed, there is no manifest, or else what would be written is never loaded.
   * @throws PlaceTaken
   */
  async checkEmpty(): Promise<void> {
    const { projectId, seq } = this.#export;
    if (seq > 0) return;
    const path = firstEntryOf(projectId);
    const { name } = this.#store;
    if ((await this.#store.size(path, this.#signal)) !== undefined)
      throw new PlaceTaken(`${name} has ${path} of another time: a warehouse begins in an empty place`);
  }

  /** What was begun and is in no manifest is of no use, and nothing else would ever remove it. */
  async removeBegun(): Promise<void> {
    const { writing } = this.#export;
    if (writing === null) return;
    await this.#store.remove(writing, this.#signal);
    this.#export = await this.transact((work) => beginPart(work, this.#export, null));
    this.#begun = undefined;
  }

  /** Removes what this turn has begun, once another worker has the project: it may not have seen it. */
  async forsake(): Promise<void> {
    const [{ projectId }, begun] = [this.#export, this.#begun];
    const { transact } = this.#app;
    if (begun === undefined || (await transact((work) => isListed(work, projectId, begun)))) return;
    await this.#store.remove(begun);
  }

  /** Writes the entries that the manifest lacks, in order: an entry is there only if all before it are. */
  async publish(): Promise<void> {
    const { projectId, seq } = this.#export;
    while (this.#export.published < seq) {
      const after = this.#export.published;
      const entries = await this.transact((work) => readEntries(work, projectId, after));
      if (entries.length === 0)
        throw new Error(
          `entries ${after + 1} to ${seq} of the manifest of ${projectId} are not in the database`,
        );
      for (const { seq: published, path, body } of entries) {
        await this.#put(path, body);
        await this.#app.transact((work) => publishedUpTo(work, this.#export, published));
        this.#export = { ...this.#export, published };
      }
    }
  }

  /**
   * Removes files that the manifest has replaced; one that cannot be removed is tried again later. Where
   * it is not one alone, this turn tries no others.
   */
  async removeReplaced(): Promise<void> {
    const { projectId } = this.#export;
    const replaced = await this.transact((work) => findReplaced(work, projectId));
    for (const { seq, path } of replaced) {
      if (this.#refusals.removed >= REFUSALS_MAX) return;
      await this.transact((work) => keepLease(work, this.#export));
      const isGone = await this.#remove(path);
      await this.transact((work) => noteRemoved(work, this.#export, { seq, isGone }));
    }
  }

  /** Reads a file. @returns undefined for one that is not there any more */
  async read(path: string): Promise<Buffer | undefined> {
    await this.transact((work) => keepLease(work, this.#export));
    this.#read++;
    const body = await this.#store.get(path, this.#signal);
    this.#refusals.read = 0;
    return body;
  }

  /** Tells operators of a file that cannot be read. */
  refuseRead(error: StoreError): void {
    this.#refusals.read = error.isArchived ? 0 : this.#refusals.read + 1;
    this.#tell(error, "a file cannot be read from which erased players are to be removed: it is tried again");
  }

  /** @throws StoreError where the store has refused to give files, and not one alone */
  checkReads(): void {
    const { read } = this.#refusals;
    if (read >= REFUSALS_MAX)
      throw new StoreError(`${this.#store.name} has refused to give ${read} files in a row`);
  }

  /** Stores a file of records, and lists it in the database, in this order. */
  async finish(finished: Finished): Promise<void> {
    const { part } = finished;
    this.#export = await this.transact((work) => beginPart(work, this.#export, part.path));
    this.#begun = part.path;
    await this.#put(part.path, part.body);
    this.#export = await this.#app.transact((work) => finishPart(work, this.#export, finished));
    this.#begun = undefined;
    this.#written++;
    const { kind } = part;
    this.#app.metrics.warehouse.files.inc({ kind });
    this.#app.metrics.warehouse.records.inc({ kind }, part.rows);
  }

  /** Stores a file, and asks the store whether it has all of it. */
  async #put(path: string, body: Buffer): Promise<void> {
    await this.#store.put(path, body, this.#signal);
    const size = await this.#store.size(path, this.#signal);
    if (size !== body.length)
      throw new StoreError(`${path} has ${size ?? "no"} bytes in the store, and not ${body.length}`);
    this.#app.metrics.warehouse.bytes.inc(body.length);
  }

  /** Removes a file. @returns false if the store refuses to, which operators are told */
  async #remove(path: string): Promise<boolean> {
    try {
      await this.#store.remove(path, this.#signal);
      this.#refusals.removed = 0;
      return true;
    } catch (error) {
      if (!isOfFile(error)) throw error;
      this.#refusals.removed++;
      this.#tell(error, "a replaced file cannot be removed: it is tried again");
      return false;
    }
  }

  /** Tells operators of a file that the store refuses. */
  #tell(err: StoreError, message: string): void {
    const { projectId } = this.#export;
    this.#app.metrics.warehouse.failures.inc();
    this.#app.log.error({ err, projectId, store: this.#store.name }, message);
  }
}
