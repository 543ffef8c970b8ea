/** Fields of every definition of the economy. The key never changes: players' holdings refer to it. */
export type Defined = { key: string; name: string };

/** A stored definition. */
export type Stored<D extends Defined = Defined> = {
  id: string;
  projectId: string;
  definition: D;
  status: "ACTIVE" | "ARCHIVED";
  version: number;
  /** Of kinds with drafts: whether its designer has paused or ended it, and when it was ended. */
  phase?: Phase | null;
  endedMs?: number | null;
  /** Of kinds with drafts: when it did not run, oldest first. */
  pauses?: Pause[] | null;
  /** Of kinds with drafts: earlier versions that players may still be using, oldest first. */
  earlier?: { version: number; definition: D }[] | null;
};

/** Whether a published definition of a kind with drafts runs. */
export type Phase = "RUNNING" | "PAUSED" | "ENDED";

/**
 * A span in which a published definition did not run. An event belongs to it if its id is from `from` on and
 * before `until`: ids are made when events are received, by the server's clock.
 */
export type Pause = {
  from: string;
  /** Null while it lasts. */
  until: string | null;
  /** Whether it had been ended, rather than paused. */
  isEnd?: true;
};

/** A published definition of a kind with drafts, to be compiled for evaluation. */
export type StoredDraft<D extends Defined> = {
  id: string;
  version?: number;
  definition: D;
  phase?: Phase | null | undefined;
  endedMs?: number | null | undefined;
  pauses?: readonly Pause[] | null | undefined;
};

/** A definition as used by evaluation. */
export type Live<D> = { id: string; definition: D };
