/** Runs what is asked of one room one after another, in the order it was asked. */
export class Turns {
  #last: Promise<unknown> = Promise.resolve();
  #waiting = 0;

  /** What has not ended yet. */
  get waiting(): number {
    return this.#waiting;
  }

  /** Resolves or rejects as `run` does, once all that was asked before has ended. */
  async take<T>(run: () => Promise<T>): Promise<T> {
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
