/** Output streams of a command: `out` for the result, `err` for progress. */
export type Terminal = { out: NodeJS.WritableStream; err: NodeJS.WritableStream & { isTTY?: boolean } };

/** Between two lines of progress, in ms. On a terminal a line takes the place of the last one. */
const [LINE_EVERY_MS, TTY_EVERY_MS] = [2_000, 500];
const CLEAR = "\r\u001b[K";

type ProgressLine = {
  /** Shows how far a command is, now and then. */
  show(text: () => string): void;
  /** Removes what is shown on the current line, before another text is written there. */
  clear(): void;
};

/** A line of progress on a stream, as many lines where it is no terminal. */
export const createProgressLine = (stream: NodeJS.WritableStream & { isTTY?: boolean }): ProgressLine => {
  const isTty = stream.isTTY === true;
  const isDue = every(isTty ? TTY_EVERY_MS : LINE_EVERY_MS);
  let isShown = false;
  return {
    show: (text) => {
      if (!isDue()) return;
      stream.write(isTty ? `${CLEAR}${text()}` : `${text()}\n`);
      isShown = isTty;
    },
    clear: () => {
      if (isShown) stream.write(CLEAR);
      isShown = false;
    },
  };
};

/** Returns a function that is true once in each period, first at its end. */
export const every = (periodMs = LINE_EVERY_MS): (() => boolean) => {
  let lastMs = performance.now();
  return () => {
    const ms = performance.now();
    if (ms - lastMs < periodMs) return false;
    lastMs = ms;
    return true;
  };
};

/** A number for people. */
export const count = (value: number): string => value.toLocaleString("en-US");

/** How much of a whole, such as "42 %". */
export const percent = (part: number, whole: number): string =>
  `${whole === 0 ? 100 : Math.floor((part / whole) * 100)} %`;
