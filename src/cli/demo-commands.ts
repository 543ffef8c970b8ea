import { XP_BOARD } from "./demo-game.ts";

/** The player used in the commands. */
const PLAYER = "ada";

/** Commands to copy into a shell. They quote with ', so nothing in them may hold one. */

export const trackCommand = (url: string, key: string): string => {
  const properties = { level: 1, stars: 3, seconds: 41 };
  const event = JSON.stringify({ externalUserId: PLAYER, eventType: "level_finished", properties });
  const headers = `-H 'X-API-Key: ${key}' -H 'Content-Type: application/json'`;
  return `curl -s '${url}/api/v1/events?wait=true' ${headers} -d '${event}'`;
};

export const boardCommand = (url: string, key: string): string =>
  `curl -s '${url}/api/v1/leaderboards/${XP_BOARD}/entries?limit=5' -H 'X-API-Key: ${key}'`;

/** Prints what the player has to do: quests, and the season. */
export const goalsCommand = (url: string, key: string): string =>
  `curl -s '${url}/api/v1/players/ext:${PLAYER}?include=quests,adventures' -H 'X-API-Key: ${key}'`;

/** Prints the messages of the player's room; runs in the directory of the clone. */
export const watchCommand = (url: string, key: string): string =>
  `URL='${url}' KEY='${key}' node docs/examples/watch.mjs ${PLAYER}`;
