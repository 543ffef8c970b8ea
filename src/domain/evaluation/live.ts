/** Fields of every definition of the economy. The key never changes: players' holdings refer to it. */
export type Defined = { key: string; name: string };

/** A stored definition. */
export type Stored<D extends Defined = Defined> = {
  id: string;
  projectId: string;
  definition: D;
  status: "ACTIVE" | "ARCHIVED";
  version: number;
};

/** A definition as used by evaluation. */
export type Live<D> = { id: string; definition: D };
