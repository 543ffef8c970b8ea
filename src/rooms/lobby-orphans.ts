import { setTimeout as delay } from "node:timers/promises";
import { matchMaker } from "@colyseus/core";
import { NIL_ID } from "../domain/kernel/ids.ts";
import type { App } from "../app.ts";
import { logFailure } from "./failure-log.ts";
import { disconnectMember } from "../domain/social/lobbies/commands.ts";
import {
  findSocketMembers,
  SOCKET_LOBBIES_MAX,
  type SocketMembers,
} from "../domain/social/lobbies/socket-members.ts";
import { lobbyRoomId } from "./room-ids.ts";
import { transactIn } from "./project-transact.ts";

/** Time after a start in which clients can return to their lobbies. */
const FIRST_AFTER_MS = 15_000;
const EVERY_MS = 60_000;
/** Maximum number of concurrent look-ups of rooms. */
const LOOK_UPS_MAX = 100;
/** Time in which listings that were lost with Redis are restored, in ms. */
const RELISTED_MS = 6_000;

/** Whether a lobby has a room: in this process, where no listing is needed, or in another one. */
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

/** Another process's room may only have lost its listing: it is listed again within RELISTED_MS. */
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
 * Starts the grace period of members whose sockets ended with a process and whose lobby has no room since. If
 * there is a room, it does so itself.
 */
export const settleOrphans = async (app: App): Promise<void> => {
  let after = NIL_ID;
  for (;;) {
    const found = await app.transact((work) => findSocketMembers(work, after));
    const orphans = await stillWithoutRoom(app, await withoutRoom(found));
    for (const orphan of orphans) await disconnectAll(app, orphan);
    if (found.length < SOCKET_LOBBIES_MAX) return;
    after = found.at(-1)!.lobbyId;
  }
};

/** Looks for such members periodically. @returns a function that stops it */
export const watchOrphans = (app: App): (() => void) => {
  let isOver = false;
  let timer: NodeJS.Timeout;
  const look = async (): Promise<void> => {
    try {
      await settleOrphans(app);
    } catch (err) {
      if (!isOver) logFailure(app, err, { reread: "lobbies without rooms" });
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
