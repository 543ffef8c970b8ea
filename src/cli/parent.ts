/** How often a process checks whether its parent still runs, in ms. */
const LOOK_EVERY_MS = 500;

/** Calls `onGone` once, soon after the process `parent`, which has started this one, has ended. */
export const watchParent = (parent: number, onGone: () => void): void => {
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    onGone();
  }, LOOK_EVERY_MS);
  timer.unref();
};
