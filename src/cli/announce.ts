import type { Config } from "../config.ts";
import { createStartLines } from "../log.ts";
import { VERSION } from "../version.ts";
import { createLines } from "./announce-lines.ts";
import { createScreen } from "./announce-screen.ts";
import type { Announcer, ReadyDemo } from "./announcement.ts";
import { DEMO_EMAIL } from "./demo-account.ts";
import { demoFilePath } from "./demo-file.ts";
import { DEMO_DAYS, DEMO_PLAYERS } from "./demo-history.ts";
import { boardCommand, goalsCommand, trackCommand, watchCommand } from "./demo-commands.ts";
import { completeDemo, type Demo, openDemo } from "./demo-seed.ts";
import type { Running } from "./serve.ts";

/** The outcome of opening the demo; `problem` says why it failed. */
type Outcome = { demo: Demo | undefined; ms?: number | undefined; problem?: string | undefined };

/**
 * Announces the server's address and the next steps: in rows on a terminal, elsewhere in JSON lines as the
 * log's. An empty embedded database then gets a demo, which arrives while one looks; what it prints was tried
 * by an event that has passed through every stage.
 * @param stopping aborted when the process is asked to stop, which then is no failure
 */
export const announce = async (running: Running, config: Config, stopping: AbortSignal): Promise<void> => {
  const { address, app, operators } = running;
  const { mode } = config;
  const announcer = process.stdout.isTTY ? createScreen(process.stdout) : createLines(createStartLines(1));
  if (!address) {
    const operate = operators && originOf(operators);
    announcer.worker({ title: `Laurel ${VERSION}: the worker is ready`, operate, mode, seconds: seconds() });
    return;
  }
  const url = config.publicUrl.replace(/:0$/, `:${address.port}`);
  const operate = operators ? originOf(operators) : url;
  announcer.server({ title: `Laurel ${VERSION} is ready on ${url}`, url, operate, mode, seconds: seconds() });
  const { demo, ms, problem } = await prepareDemo(running, config, { announcer, stopping });
  if (stopping.aborted) return;
  if (demo) {
    announcer.demo({ ...readyDemo(demo, config, originOf(address)), ...proofOf({ ms, problem }) });
    await completeDemo(app, demo);
  } else if (problem === undefined) announcer.next();
  else announcer.failure(problem);
};

const proofOf = ({ ms = 0, problem }: Omit<Outcome, "demo">): Pick<ReadyDemo, "selfTestMs" | "problem"> =>
  problem === undefined ? { selfTestMs: Math.round(ms) } : { problem };

/** Time since the process started, to a tenth. */
const seconds = (): number => Math.round(performance.now() / 100) / 10;

/** The host under which this machine reaches the server. */
const hostOf = (host: string, loopback: string): string => {
  if (["127.0.0.1", "0.0.0.0", "::"].includes(host)) return loopback;
  return host.includes(":") ? `[${host}]` : host;
};

const originOf = ({ host, port }: { host: string; port: number }): string =>
  `http://${hostOf(host, "localhost")}:${port}`;

type Preparing = { announcer: Announcer; stopping: AbortSignal };

const prepareDemo = async (
  running: Running,
  config: Config,
  { announcer, stopping }: Preparing,
): Promise<Outcome> => {
  if (!config.demo) return { demo: undefined };
  if (config.mode !== "embedded") {
    announcer.note("DEMO=on does nothing in cluster mode: the demo is for an embedded database");
    return { demo: undefined };
  }
  const { app, address } = running;
  let demo: Demo | undefined;
  try {
    demo = await openDemo(app, announcer.progress, stopping).finally(announcer.progressed);
    if (!demo) return { demo };
    const { selfTest } = await import("./demo-self-test.ts");
    const url = `http://${hostOf(address!.host, "127.0.0.1")}:${address!.port}`;
    return { demo, ms: await selfTest({ url, key: demo.key }) };
  } catch (err) {
    if (!stopping.aborted) app.log.error({ err }, demo ? "the self test failed" : "the demo was not created");
    return { demo, problem: (err as Error).message };
  }
};

const readyDemo = ({ key, events, password, season }: Demo, { dataDir }: Config, url: string): ReadyDemo => ({
  players: DEMO_PLAYERS,
  events,
  days: DEMO_DAYS,
  ...(season ? { season } : {}),
  email: DEMO_EMAIL,
  ...(password === undefined ? {} : { password }),
  key,
  keyFile: demoFilePath(dataDir),
  commands: {
    track: trackCommand(url, key),
    board: boardCommand(url, key),
    goals: goalsCommand(url, key),
    watch: watchCommand(url, key),
  },
});
