import { kill, type Laurel, laurel } from "./process.ts";

/** A process that is started again at once whenever it has ended. */
export type Supervised = {
  /** How often it has ended. */
  deaths(): number;
  /** Ends the process the hard way; another one is started. */
  kill(): Promise<void>;
  stop(): Promise<void>;
};

/** Starts a process, and starts it again whenever it ends. */
export const supervise = (args: readonly string[], env: Record<string, string>): Supervised => {
  let deaths = 0;
  let isOver = false;
  let current: Laurel = laurel(args, env);
  const run = (async () => {
    for (;;) {
      await current.ended;
      if (isOver) return;
      deaths++;
      current = laurel(args, env);
    }
  })();
  return {
    deaths: () => deaths,
    kill: () => kill(current),
    stop: async () => {
      isOver = true;
      await kill(current);
      await run;
    },
  };
};
