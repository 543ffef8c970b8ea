/** What every definition of the economy has. The key never changes: what players hold names it. */
export type Defined = { key: string; name: string };

/** A definition as it is kept. */
export type Stored<D extends Defined = Defined> = {
  id: string;
  projectId: string;
  definition: D;
  status: "ACTIVE" | "ARCHIVED";
  version: number;
};

/** A definition as evaluation uses it. */
export type Live<D> = { id: string; definition: D };
