/**
 * Where files for a warehouse are kept. Paths are relative, of letters, digits and `-_.=/`. Each function has
 * a time limit of its own, below a minute; `signal` ends it before, as when the process stops.
 * @throws StoreError
 */
export type WarehouseStore = {
  /** What it is, for log lines, without secrets. */
  name: string;
  /** Stores a file whole or not at all; one of that name is replaced. Returns once it is durable. */
  put(path: string, body: Buffer, signal?: AbortSignal): Promise<void>;
  /** Returns the bytes of a file, as the store has them; undefined without it. */
  size(path: string, signal?: AbortSignal): Promise<number | undefined>;
  /** Returns a file; undefined without it. */
  get(path: string, signal?: AbortSignal): Promise<Buffer | undefined>;
  /** Removes a file, if it is there. */
  remove(path: string, signal?: AbortSignal): Promise<void>;
  /** Writes, reads and removes a file. */
  check(): Promise<void>;
};

export type StoreErrorOptions = { cause?: unknown; isOfFile?: boolean; isArchived?: boolean };

/** The store refuses, fails or does not answer; its message is meant for operators. */
export class StoreError extends Error {
  /** Whether it may be one file that it refuses, so that others may work. */
  readonly isOfFile: boolean;
  /** Whether that is certain: the store works, and says of this file that it is archived. */
  readonly isArchived: boolean;

  constructor(message: string, { cause, isOfFile = false, isArchived = false }: StoreErrorOptions = {}) {
    super(message, { cause });
    this.name = "StoreError";
    this.isOfFile = isOfFile || isArchived;
    this.isArchived = isArchived;
  }
}

/** What is in the place of one project keeps its files from being written; it concerns no other project. */
export class PlaceTaken extends Error {
  constructor(message: string) {
    super(message);
    this.name = "PlaceTaken";
  }
}

/** Whether the store refuses one file, so that others may work. */
export const isOfFile = (error: unknown): error is StoreError =>
  error instanceof StoreError && error.isOfFile;

/** Where every event is written. */
export type Warehouse = {
  store: () => Promise<WarehouseStore>;
  /** How long events of a project are gathered for a file, in ms. */
  everyMs: number;
  /** Events younger than this are left, in ms: their neighbours may not be committed yet. */
  lagMs: number;
};
