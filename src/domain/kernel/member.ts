/** A request that shares a transaction with others. */
export type Member = {
  /** Whether it has changed the database: if it then fails, the whole transaction is undone. */
  readonly hasWritten: boolean;
  /** Takes a step of `together` with the other members, and returns its value for the item. */
  take(step: object, item: unknown): Promise<unknown>;
};
