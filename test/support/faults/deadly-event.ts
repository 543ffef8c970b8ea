/**
 * To be imported before a process's own code: the process runs out of memory when it evaluates an event of
 * the type DEADLY_TYPE, or is killed where DEADLY_BY is "kill".
 */
const type = process.env["DEADLY_TYPE"];
const get = Map.prototype.get;
Error.stackTraceLimit = 30;

const die = (): void => {
  if (process.env["DEADLY_BY"] === "kill") process.kill(process.pid, "SIGKILL");
  // At once: an event that takes long to exhaust the memory is interrupted before.
  const hoard: number[][] = [];
  for (;;) hoard.push(Array<number>(30_000_000).fill(hoard.length / 7));
};

Reflect.set(Map.prototype, "get", function (this: Map<unknown, unknown>, key: unknown): unknown {
  // The type of an event is looked up when it is tracked, too.
  if (key === type && new Error("where").stack?.includes("/progression/batch.ts")) die();
  return get.call(this, key);
});
