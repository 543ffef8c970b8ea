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
  /** Of kinds with drafts: earlier versions that players may still be using, oldest first. */
  earlier?: { version: number; definition: D }[] | null;
};

/** Whether a published definition of a kind with drafts runs. */
export type Phase = "RUNNING" | "PAUSED" | "ENDED";

/** A definition as used by evaluation. */
export type Live<D> = { id: string; definition: D };
