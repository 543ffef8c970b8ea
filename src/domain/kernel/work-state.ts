/** How long state lives: until its transaction is over, or until `transact` returns, through its retries. */
type Life = "TRANSACTION" | "RETRIES";

/** Names the state of one feature, and says how it begins. */
export type StateKey<T, L extends Life> = {
  readonly name: string;
  readonly life: L;
  readonly initial: () => T;
};

/** Creates the key of state in `work.local`: once, in the module of the feature that owns it. */
export const localKey = <T>(name: string, initial: () => T): StateKey<T, "TRANSACTION"> => ({
  name,
  life: "TRANSACTION",
  initial,
});

/** Creates the key of state in `work.retained`: once, in the module of the feature that owns it. */
export const retainedKey = <T>(name: string, initial: () => T): StateKey<T, "RETRIES"> => ({
  name,
  life: "RETRIES",
  initial,
});

/**
 * State that features keep with a transaction, each under its own key. It dies with the transaction, and no
 * other sees it.
 */
export class WorkState<L extends Life> {
  readonly #values = new Map<StateKey<unknown, L>, unknown>();

  /** Returns the state of a feature: what it has set, or what it begins with. */
  get<T>(key: StateKey<T, L>): T {
    if (!this.#values.has(key)) this.#values.set(key, key.initial());
    return this.#values.get(key) as T;
  }

  set<T>(key: StateKey<T, L>, value: T): void {
    this.#values.set(key, value);
  }
}
