/** Runs the operations of one room one after another, in the order they were requested. */
export class SerialQueue {
  #last: Promise<unknown> = Promise.resolve();
  #waiting = 0;

  /** Number of operations that have not ended yet. */
  get waiting(): number {
    return this.#waiting;
  }

  /** Resolves or rejects as `run` does, after all earlier operations have ended. */
  async run<T>(run: () => Promise<T>): Promise<T> {
    this.#waiting += 1;
    const before = this.#last;
    const turn = before.then(run);
    this.#last = turn.catch(() => undefined);
    try {
      return await turn;
    } finally {
      this.#waiting -= 1;
    }
  }
}
