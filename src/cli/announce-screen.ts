import { styleText } from "node:util";
import { ROOM_KINDS } from "../domain/kernel/live-rooms.ts";
import type { Announcer, ReadyDemo } from "./announcement.ts";

const LAUREL = "node bin/laurel.mjs";

const row = (name: string, text: string): void => console.log(`  ${name.padEnd(10)} ${text}`);
const failure = (text: string): string => styleText("red", `FAILED: ${text}`);
const count = (value: number): string => value.toLocaleString("en");

/** Announces on a terminal, in rows to read and commands to copy. */
export const createScreen = (out: NodeJS.WriteStream): Announcer => {
  let isProgressShown = false;
  return {
    worker: ({ title, operate, mode, seconds }) => {
      const place = operate === undefined ? "" : `, health and metrics on ${operate}`;
      console.log(`${title} (${mode} mode, ${seconds.toFixed(1)} s)${place}`);
    },
    server: ({ title, url, operate, mode, seconds }) => {
      console.log(`\n${styleText("bold", title)}  (${mode} mode, ${seconds.toFixed(1)} s)\n`);
      row("API docs", `${url}/docs   (OpenAPI: ${url}/openapi.json)`);
      row("Operate", `${operate}/metrics, /health/ready, /health/live`);
      row("Socket", `${url.replace(/^http/, "ws")}   (Colyseus rooms: ${ROOM_KINDS.join(", ")})`);
    },
    demo: showDemo,
    failure: (problem) => row("Demo", failure(`${problem}; the next start tries again`)),
    next: () => {
      row("API key", "register, then make a project and a key: POST /auth/register, /projects,");
      row("", "/projects/{projectId}/api-keys; /docs shows the bodies");
    },
    note: (text) => console.log(text),
    progress: (text) => {
      isProgressShown = true;
      out.write(`\r\u001b[K${text}`);
    },
    progressed: () => void (isProgressShown && out.write("\r\u001b[K")),
  };
};

const showSeason = ({ name, endsAt, quests, tiers, players }: NonNullable<ReadyDemo["season"]>): void =>
  row(
    "",
    `${name}: ${quests} quests, ${tiers} tiers, ${count(players)} players, until ${endsAt.slice(0, 10)}`,
  );

const showDemo = (demo: ReadyDemo): void => {
  const { players, events, days, season, email, password, key, keyFile, commands } = demo;
  const size = `${count(players)} players, ${count(events)} events over ${days} days`;
  row("Demo", `${size}   (remove: ${LAUREL} demo remove)`);
  if (season) showSeason(season);
  row("Console", "not built yet; its login works: POST /auth/login");
  if (password === undefined) row("", `${email}   (for a new password: ${LAUREL} demo password)`);
  else row("", `${email}  /  ${styleText("bold", password)}   (shown only now)`);
  row("Test key", `${styleText("bold", key)}   (kept in ${keyFile})`);
  row("", "test keys act on the project's sandbox: the demo data are there");
  const { selfTestMs = 0, problem } = demo;
  const proven = `event -> rule -> XP -> rank -> socket in ${selfTestMs} ms`;
  row("Self test", problem === undefined ? proven : failure(problem));
  console.log("\n  Send an event and see what it did:\n");
  console.log(commands.track);
  console.log("\n  See the leaders:\n");
  console.log(commands.board);
  console.log("\n  See the player's quests and season: three events complete the daily quest:\n");
  console.log(commands.goals);
  console.log("\n  Watch that player live, in a second terminal, then send the event again:\n");
  console.log(`${commands.watch}\n`);
};
