import { setTimeout as delay } from "node:timers/promises";
import { matchMaker } from "@colyseus/core";
import type { App } from "../app.ts";
import { disconnectMember } from "../domain/social/lobbies/commands.ts";
import {
  findSocketMembers,
  SOCKET_LOBBIES_MAX,
  type SocketMembers,
} from "../domain/social/lobbies/socket-members.ts";
import { lobbyRoomId } from "./room-ids.ts";
import { transactIn } from "./sight.ts";

/** Clients have this long after a start to come back to their lobbies. */
const FIRST_AFTER_MS = 15_000;
const EVERY_MS = 60_000;
/** Look-ups of rooms on their way at a time. */
const LOOK_UPS_MAX = 100;
/** Listings that were lost with Redis are there again by then, in ms. */
const RELISTED_MS = 6_000;
const NO_ID = "00000000-0000-0000-0000-000000000000";

/** Whether there is a room of a lobby: here, where no listing is needed to know, or in another process. */
const hasRoom = async ({ projectId, lobbyId }: SocketMembers): Promise<boolean> => {
  const roomId = lobbyRoomId(projectId, lobbyId);
  return matchMaker.getLocalRoomById(roomId) !== undefined || matchMaker.driver.has(roomId);
};

const withoutRoom = async (found: readonly SocketMembers[]): Promise<SocketMembers[]> => {
  const orphans: SocketMembers[] = [];
  for (let i = 0; i < found.length; i += LOOK_UPS_MAX) {
    const some = found.slice(i, i + LOOK_UPS_MAX);
    const areThere = await Promise.all(some.map(hasRoom));
    orphans.push(...some.filter((_, n) => !areThere[n]));
  }
  return orphans;
};

/** A room of another process may only have lost its listing: it is listed again within RELISTED_MS. */
const stillWithoutRoom = async (app: App, orphans: readonly SocketMembers[]): Promise<SocketMembers[]> => {
  if (!app.peers || orphans.length === 0) return [...orphans];
  await delay(RELISTED_MS, undefined, { ref: false });
  return withoutRoom(orphans);
};

const disconnectAll = async (app: App, { projectId, lobbyId, playerIds }: SocketMembers): Promise<void> => {
  for (const playerId of playerIds)
    await transactIn(app, projectId)((work) => disconnectMember(work, { projectId, lobbyId }, playerId));
};

/**
 * Begins the grace of members whose sockets ended with a process and whose lobby no room has taken up since.
 * Where there is a room, it does so itself.
 */
export const settleOrphans = async (app: App): Promise<void> => {
  let after = NO_ID;
  for (;;) {
    const found = await app.transact((work) => findSocketMembers(work, after));
    const orphans = await stillWithoutRoom(app, await withoutRoom(found));
    for (const orphan of orphans) await disconnectAll(app, orphan);
    if (found.length < SOCKET_LOBBIES_MAX) return;
    after = found.at(-1)!.lobbyId;
  }
};

/** Looks for such members from time to time. @returns what ends that */
export const watchOrphans = (app: App): (() => void) => {
  let isOver = false;
  let timer: NodeJS.Timeout;
  const look = async (): Promise<void> => {
    try {
      await settleOrphans(app);
    } catch (err) {
      if (!isOver) app.log.error({ err }, "lobbies without rooms could not be looked at");
    }
    if (!isOver) schedule(EVERY_MS);
  };
  const schedule = (delayMs: number): void => {
    timer = setTimeout(() => void look(), delayMs).unref();
  };
  schedule(FIRST_AFTER_MS);
  return () => {
    isOver = true;
    clearTimeout(timer);
  };
};
