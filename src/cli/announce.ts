import { styleText } from "node:util";
import type { Config } from "../config.ts";
import { VERSION } from "../version.ts";
import { DEMO_EMAIL } from "./demo-account.ts";
import { demoFilePath } from "./demo-file.ts";
import { DEMO_DAYS, DEMO_PLAYERS } from "./demo-history.ts";
import { boardCommand, trackCommand, watchCommand } from "./demo-commands.ts";
import { completeDemo, type Demo, openDemo } from "./demo-seed.ts";
import type { Running } from "./serve.ts";

const LAUREL = "node bin/laurel.mjs";

/** The outcome of opening the demo; `problem` says why it failed. */
type Outcome = { demo: Demo | undefined; ms?: number; problem?: string };

/**
 * Prints the server's address and the next steps. A demo comes first: an empty embedded database gets one,
 * and with a demo the server reports itself ready only after an event has passed through every stage.
 * @param stopping aborted when the process is asked to stop, which then is no failure
 */
export const announce = async (running: Running, config: Config, stopping: AbortSignal): Promise<void> => {
  const { address, app, operators } = running;
  if (!address) {
    const place = operators ? `, health and metrics on ${originOf(operators)}` : "";
    console.log(`Laurel ${VERSION}: the worker is ready (${config.mode} mode, ${seconds()})${place}`);
    return;
  }
  const { port } = address;
  const url = config.publicUrl.replace(/:0$/, `:${port}`);
  const outcome = await prepareDemo(running, config, stopping);
  if (stopping.aborted) return;
  const { demo, problem } = outcome;
  const title = `Laurel ${VERSION} is ${problem === undefined ? "ready" : "running"} on ${url}`;
  console.log(`\n${styleText("bold", title)}  (${config.mode} mode, ${seconds()})\n`);
  row("API docs", `${url}/docs   (OpenAPI: ${url}/openapi.json)`);
  row("Operate", `${operators ? originOf(operators) : url}/metrics, /health/ready, /health/live`);
  row("Socket", `${url.replace(/^http/, "ws")}   (Colyseus rooms: player, leaderboard)`);
  if (!demo) {
    if (problem !== undefined) row("Demo", failure(`${problem}; the next start tries again`));
    row("API key", "register, then make a project and a key: POST /auth/register, /projects,");
    row("", "/projects/{projectId}/api-keys; /docs shows the bodies");
    return;
  }
  showDemo(demo, config);
  const { ms = 0 } = outcome;
  const proven = `event -> rule -> XP -> rank -> socket in ${Math.round(ms)} ms`;
  row("Self test", problem === undefined ? proven : failure(problem));
  showCommands(originOf(address), demo.key);
  await completeDemo(app, demo);
};

const failure = (text: string): string => styleText("red", `FAILED: ${text}`);

/** Time since the process started. */
const seconds = (): string => `${(performance.now() / 1_000).toFixed(1)} s`;

const row = (name: string, text: string): void => console.log(`  ${name.padEnd(10)} ${text}`);

/** The host under which this machine reaches the server. */
const hostOf = (host: string, loopback: string): string => {
  if (["127.0.0.1", "0.0.0.0", "::"].includes(host)) return loopback;
  return host.includes(":") ? `[${host}]` : host;
};

const originOf = ({ host, port }: { host: string; port: number }): string =>
  `http://${hostOf(host, "localhost")}:${port}`;

const prepareDemo = async (running: Running, config: Config, stopping: AbortSignal): Promise<Outcome> => {
  if (!config.demo) return { demo: undefined };
  if (config.mode !== "embedded") {
    console.log("DEMO=on does nothing in cluster mode: the demo is for an embedded database");
    return { demo: undefined };
  }
  const { app, address } = running;
  const progress = createProgress(process.stdout);
  let demo: Demo | undefined;
  try {
    demo = await openDemo(app, progress.show, stopping).finally(progress.end);
    if (!demo) return { demo };
    const { selfTest } = await import("./demo-self-test.ts");
    const url = `http://${hostOf(address!.host, "127.0.0.1")}:${address!.port}`;
    return { demo, ms: await selfTest({ url, key: demo.key }) };
  } catch (err) {
    if (!stopping.aborted) app.log.error({ err }, demo ? "the self test failed" : "the demo was not created");
    return { demo, problem: (err as Error).message };
  }
};

const count = (value: number): string => value.toLocaleString("en");

const showDemo = ({ key, events, password }: Demo, { dataDir }: Config): void => {
  const size = `${count(DEMO_PLAYERS)} players, ${count(events)} events over ${DEMO_DAYS} days`;
  row("Demo", `${size}   (remove: ${LAUREL} demo remove)`);
  row("Console", "not built yet; its login works: POST /auth/login");
  if (password === undefined) row("", `${DEMO_EMAIL}   (for a new password: ${LAUREL} demo password)`);
  else row("", `${DEMO_EMAIL}  /  ${styleText("bold", password)}   (shown only now)`);
  row("Test key", `${styleText("bold", key)}   (kept in ${demoFilePath(dataDir)})`);
  row("", "test keys act on the project's sandbox: the demo data are there");
};

const showCommands = (url: string, key: string): void => {
  console.log("\n  Send an event and see what it did:\n");
  console.log(trackCommand(url, key));
  console.log("\n  See the leaders:\n");
  console.log(boardCommand(url, key));
  console.log("\n  Watch that player live, in a second terminal, then send the event again:\n");
  console.log(`${watchCommand(url, key)}\n`);
};

const LINE_EVERY_MS = 2_000;

/** A progress line that is rewritten on a terminal; elsewhere a new line from time to time. */
const createProgress = (out: NodeJS.WriteStream) => {
  let shownAtMs = -Infinity;
  return {
    show: (text: string): void => {
      if (out.isTTY) out.write(`\r\u001b[K${text}`);
      else if (performance.now() - shownAtMs >= LINE_EVERY_MS) out.write(`${text}\n`);
      else return;
      shownAtMs = performance.now();
    },
    end: (): void => {
      if (out.isTTY && shownAtMs > 0) out.write("\r\u001b[K");
    },
  };
};
