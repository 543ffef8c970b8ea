import { styleText } from "node:util";
import type { Config } from "../config.ts";
import { ROOM_KINDS } from "../domain/kernel/live-rooms.ts";
import { createStartLines } from "../log.ts";
import { VERSION } from "../version.ts";
import { DEMO_EMAIL, demoFilePath } from "./demo-account.ts";
import { XP_BOARD } from "./demo-game.ts";
import { DEMO_DAYS, DEMO_PLAYERS } from "./demo-history.ts";
import { completeDemo, type Demo, openDemo } from "./demo-seed.ts";
import { count } from "./progress.ts";
import type { Running } from "./serve.ts";

const PROGRESS_EVERY_MS = 2_000;
const LAUREL = "node bin/laurel.mjs";
/** The player used in the commands. */
const PLAYER = "ada";

/** What a start has to tell: a line of the log, and rows where there is a terminal. */
type Told = { level?: "info" | "warn" | "error"; msg: string; fields?: object; rows: readonly string[] };
type Tell = (told: Told) => void;

const row = (name: string, text: string): string => `  ${name.padEnd(10)} ${text}`;
const failed = (text: string): string => styleText("red", `FAILED: ${text}`);

/** Shows how far the demo has been made; without a text it removes what is shown. */
type ShowProgress = (text?: string) => void;

/** Tells in rows on a terminal, elsewhere in JSON lines. */
const createTeller = (): { tell: Tell; progress: ShowProgress } => {
  if (process.stdout.isTTY)
    return {
      tell: ({ rows }) => console.log(rows.join("\n")),
      progress: (text = "") => void process.stdout.write(`\r\u001b[K${text}`),
    };
  const lines = createStartLines(1);
  let shownMs = -Infinity;
  return {
    tell: ({ level = "info", msg, fields = {} }) => lines[level](fields, msg),
    progress: (text) => {
      if (text === undefined || performance.now() - shownMs < PROGRESS_EVERY_MS) return;
      shownMs = performance.now();
      lines.info(text);
    },
  };
};

/**
 * Announces the server's address and the next steps: in rows on a terminal, elsewhere in JSON lines as the
 * log's. An empty embedded database then gets a demo, which arrives while one looks; what it prints was tried
 * by an event that has passed through every stage.
 * @param stopping aborted when the process is asked to stop, which then is no failure
 */
export const announce = async (running: Running, config: Config, stopping: AbortSignal): Promise<void> => {
  const { address, app, operators } = running;
  const { tell, progress } = createTeller();
  const state = { mode: config.mode, seconds: Math.round(performance.now() / 100) / 10 };
  const operate = operators && originOf(operators);
  if (!address) return tell(workerReady({ ...state, operate }));
  const url = config.publicUrl.replace(/:0$/, `:${address.port}`);
  tell(serverReady({ url, operate: operate ?? url, ...state }));
  const { demo, ms = 0, problem } = await prepareDemo(running, config, { tell, progress, stopping });
  if (stopping.aborted) return;
  if (demo) {
    const proof = problem === undefined ? { selfTestMs: Math.round(ms) } : { problem };
    tell(demoReady({ ...demoFields(demo, config, originOf(address)), ...proof }));
    await completeDemo(app, demo);
  } else tell(problem === undefined ? NEXT : demoFailed(problem));
};

type State = { mode: string; seconds: number };

const workerReady = (fields: State & { operate: string | undefined }): Told => {
  const { operate, mode, seconds } = fields;
  const msg = `Laurel ${VERSION}: the worker is ready`;
  const place = operate === undefined ? "" : `, health and metrics on ${operate}`;
  return { msg, fields, rows: [`${msg} (${mode} mode, ${seconds.toFixed(1)} s)${place}`] };
};

const serverReady = (state: State & { url: string; operate: string }): Told => {
  const { url, operate, mode, seconds } = state;
  const msg = `Laurel ${VERSION} is ready on ${url}`;
  const socket = url.replace(/^http/, "ws");
  return {
    msg,
    fields: {
      ...state,
      console: `${url}/console`,
      docs: `${url}/docs`,
      openapi: `${url}/openapi.json`,
      socket,
    },
    rows: [
      `\n${styleText("bold", msg)}  (${mode} mode, ${seconds.toFixed(1)} s)\n`,
      row("Console", `${url}/console`),
      row("API docs", `${url}/docs   (OpenAPI: ${url}/openapi.json)`),
      row("Operate", `${operate}/metrics, /health/ready, /health/live`),
      row("Socket", `${socket}   (Colyseus rooms: ${ROOM_KINDS.join(", ")})`),
    ],
  };
};

/** There is no demo. */
const NEXT: Told = {
  msg: "register, then make a project and a key: docs/guides/getting-started.md",
  rows: [
    row("API key", "register, then make a project and a key: POST /auth/register, /projects,"),
    row("", "/projects/{projectId}/api-keys; /docs shows the bodies"),
  ],
};

const NO_DEMO = "DEMO=on does nothing in cluster mode: the demo is for an embedded database";

const demoFailed = (problem: string): Told => ({
  level: "error",
  msg: "the demo could not be made; the next start tries again",
  fields: { problem },
  rows: [row("Demo", failed(`${problem}; the next start tries again`))],
});

/** What a start tells about the demo; commands are to be copied into a shell. */
const demoFields = ({ key, events, password, season }: Demo, { dataDir }: Config, url: string) => ({
  players: DEMO_PLAYERS,
  events,
  days: DEMO_DAYS,
  ...(season ? { season } : {}),
  email: DEMO_EMAIL,
  // Only after the start that made the account.
  ...(password === undefined ? {} : { password }),
  key,
  keyFile: demoFilePath(dataDir),
  commands: commandsFor(url, key),
});

/** They quote with ', so nothing in them may hold one. */
const commandsFor = (url: string, key: string) => {
  const properties = { level: 1, stars: 3, seconds: 41 };
  const event = JSON.stringify({ externalUserId: PLAYER, eventType: "level_finished", properties });
  const header = `-H 'X-API-Key: ${key}'`;
  const api = `${url}/api/v1`;
  return {
    track: `curl -s '${api}/events?wait=true' ${header} -H 'Content-Type: application/json' -d '${event}'`,
    board: `curl -s '${api}/leaderboards/${XP_BOARD}/entries?limit=5' ${header}`,
    goals: `curl -s '${api}/players/ext:${PLAYER}?include=quests,adventures' ${header}`,
    // Runs in the directory of the clone.
    watch: `URL='${url}' KEY='${key}' node docs/examples/watch.mjs ${PLAYER}`,
  };
};

const demoReady = (demo: ReturnType<typeof demoFields> & { selfTestMs?: number; problem?: string }): Told => {
  const { players, events, days, season, email, password, key, keyFile, commands, problem } = demo;
  const size = `${count(players)} players, ${count(events)} events over ${days} days`;
  const { name, quests, tiers, players: playing, endsAt } = season ?? {};
  const until = endsAt?.slice(0, 10);
  return {
    level: problem === undefined ? "info" : "error",
    msg: problem === undefined ? "the demo has passed its self test" : "the self test of the demo has failed",
    fields: demo,
    rows: [
      row("Demo", `${size}   (remove: ${LAUREL} demo remove)`),
      ...(season
        ? [row("", `${name}: ${quests} quests, ${tiers} tiers, ${count(playing!)} players, until ${until}`)]
        : []),
      password === undefined
        ? row("Sign in", `${email}   (for a new password: ${LAUREL} demo password)`)
        : row("Sign in", `${email}  /  ${styleText("bold", password)}   (shown only now)`),
      row("Test key", `${styleText("bold", key)}   (kept in ${keyFile})`),
      row("", "test keys act on the project's sandbox: the demo data are there"),
      row(
        "Self test",
        problem === undefined
          ? `event -> rule -> XP -> rank -> socket in ${demo.selfTestMs} ms`
          : failed(problem),
      ),
      `\n  Send an event and see what it did:\n\n${commands.track}`,
      `\n  See the leaders:\n\n${commands.board}`,
      `\n  See the player's quests and season: three events complete the daily quest:\n\n${commands.goals}`,
      "\n  Watch that player live, in a second terminal, then send the event again:\n",
      `${commands.watch}\n`,
    ],
  };
};

/** The host under which this machine reaches the server. */
const hostOf = (host: string, loopback: string): string => {
  if (["127.0.0.1", "0.0.0.0", "::"].includes(host)) return loopback;
  return host.includes(":") ? `[${host}]` : host;
};

const originOf = ({ host, port }: { host: string; port: number }): string =>
  `http://${hostOf(host, "localhost")}:${port}`;

/** The outcome of opening the demo; `problem` says why it failed. */
type Outcome = { demo: Demo | undefined; ms?: number; problem?: string };
type Preparing = { tell: Tell; progress: ShowProgress; stopping: AbortSignal };

const prepareDemo = async (
  { app, address }: Running,
  { demo: isWanted, mode }: Config,
  { tell, progress, stopping }: Preparing,
): Promise<Outcome> => {
  if (isWanted && mode !== "embedded") tell({ level: "warn", msg: NO_DEMO, rows: [NO_DEMO] });
  if (!isWanted || mode !== "embedded") return { demo: undefined };
  let demo: Demo | undefined;
  try {
    demo = await openDemo(app, progress, stopping).finally(progress);
    if (!demo) return { demo };
    const { selfTest } = await import("./demo-self-test.ts");
    const url = `http://${hostOf(address!.host, "127.0.0.1")}:${address!.port}`;
    return { demo, ms: await selfTest({ url, key: demo.key }) };
  } catch (err) {
    if (!stopping.aborted) app.log.error({ err }, demo ? "the self test failed" : "the demo was not created");
    return { demo, problem: (err as Error).message };
  }
};
