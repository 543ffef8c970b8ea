type Waiting = { isAlone: boolean; enter: () => void };

/** Lets runs go beside one another, or one alone, in the order in which they come. */
export class Turnstile {
  readonly #waiting: Waiting[] = [];
  #running = 0;
  #isAlone = false;

  beside<T>(run: () => Promise<T>): Promise<T> {
    return this.#pass(false, run);
  }

  alone<T>(run: () => Promise<T>): Promise<T> {
    return this.#pass(true, run);
  }

  async #pass<T>(isAlone: boolean, run: () => Promise<T>): Promise<T> {
    if (this.#waiting.length === 0 && this.#isFree(isAlone)) this.#enter(isAlone);
    else await new Promise<void>((enter) => this.#waiting.push({ isAlone, enter }));
    try {
      return await run();
    } finally {
      this.#running--;
      this.#isAlone = false;
      this.#next();
    }
  }

  #isFree(isAlone: boolean): boolean {
    return this.#running === 0 || (!isAlone && !this.#isAlone);
  }

  #enter(isAlone: boolean): void {
    this.#running++;
    this.#isAlone = isAlone;
  }

  #next(): void {
    for (let next = this.#waiting[0]; next && this.#isFree(next.isAlone); next = this.#waiting[0]) {
      this.#waiting.shift();
      this.#enter(next.isAlone);
      next.enter();
    }
  }
}
