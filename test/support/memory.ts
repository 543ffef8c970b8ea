import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** What this process keeps in memory: garbage is collected before. */
export const memoryKept = (): NodeJS.MemoryUsage => {
  setFlagsFromString("--expose-gc");
  (runInNewContext("gc") as () => void)();
  setFlagsFromString("--no-expose-gc");
  return process.memoryUsage();
};
